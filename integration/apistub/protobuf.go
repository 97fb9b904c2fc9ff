package apistub

import (
	"encoding/json"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// protobufStream is the content type of a watch in the API's binary form.
const protobufStream = runtime.ContentTypeProtobuf + ";stream=watch"

// protobufEncoder writes watch events as frames in the API's binary form, as a
// real server does that is asked for it.
func protobufEncoder(w io.Writer) func(kind string, object []byte) error {
	scheme := runtime.NewScheme()
	_, _, _ = corev1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme), networkingv1.AddToScheme(scheme) // they have no error but programming ones
	whole := protobuf.NewSerializer(scheme, scheme)
	bare := protobuf.NewRawSerializer(scheme, scheme)
	frames := protobuf.LengthDelimitedFramer.NewFrameWriter(w)
	return func(kind string, text []byte) error {
		object, err := decode(scheme, text)
		if err != nil {
			return err
		}
		inner, err := runtime.Encode(whole, object)
		if err != nil {
			return fmt.Errorf("encoding an object: %w", err)
		}
		return bare.Encode(&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: inner}}, frames)
	}
}

// decode reads an object of any kind that the scheme knows.
func decode(scheme *runtime.Scheme, text []byte) (runtime.Object, error) {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(text, &kind); err != nil {
		return nil, fmt.Errorf("reading an object's kind: %w", err)
	}
	object, err := scheme.New(kind.GroupVersionKind())
	if err != nil {
		return nil, fmt.Errorf("making a %s: %w", kind.Kind, err)
	}
	return object, json.Unmarshal(text, object)
}
