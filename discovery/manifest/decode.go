package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"signpost/discovery"
	"signpost/discovery/convert"
)

// objectID names an object: a node or a namespace has no namespace of its own.
type objectID struct {
	kind string
	key  discovery.Key
}

func serviceID(k discovery.Key) objectID { return objectID{kind: "Service", key: k} }

// String returns the object as messages name it: Service "default/web".
func (id objectID) String() string {
	if id.key.Namespace == "" {
		return id.kind + ` "` + id.key.Name + `"`
	}
	return id.kind + ` "` + id.key.String() + `"`
}

// object is one object as a document describes it. It is immutable.
type object struct {
	id       objectID
	api      runtime.Object
	line     int // of the document, counted from 0
	place    int // among the objects of the document
	refused  []fault
	warnings []fault
	source   *source // Services only: allocation may find fault later
}

// apiOrNil returns the API object; of no object, none.
func (o *object) apiOrNil() runtime.Object {
	if o == nil {
		return nil
	}
	return o.api
}

// source is the text that an object was read from.
type source struct {
	text   []byte
	json   bool
	prefix string // path of the object inside the document: items[3] in a list
}

// content is what a document holds. It is immutable.
type content struct {
	objects []*object
	faults  []fault  // nothing can be said of what the document describes
	skipped []string // kinds that are none of ours
}

// opaque reports whether a document may describe objects that can't be told.
func (c *content) opaque() bool { return len(c.faults) > 0 }

// decoder turns documents into defaulted, validated objects. It keeps nothing
// and serves several goroutines.
type decoder struct{ options convert.Options }

// newObject makes an empty object of a kind that the folder may hold, by
// apiVersion and kind.
var newObject = map[string]map[string]func() runtime.Object{
	"Service":       {"v1": func() runtime.Object { return new(corev1.Service) }},
	"Endpoints":     {"v1": func() runtime.Object { return new(corev1.Endpoints) }}, //nolint:staticcheck // people write them (E-21)
	"Pod":           {"v1": func() runtime.Object { return new(corev1.Pod) }},
	"Node":          {"v1": func() runtime.Object { return new(corev1.Node) }},
	"Namespace":     {"v1": func() runtime.Object { return new(corev1.Namespace) }},
	"EndpointSlice": {"discovery.k8s.io/v1": func() runtime.Object { return new(discoveryv1.EndpointSlice) }},
}

// decode reads one document. Whatever the text, it returns: the YAML library
// is known to panic on some.
func (d decoder) decode(c chunk) (result *content) {
	result = &content{}
	first := bytes.Count(c.text[:firstContent(c.text)], []byte{'\n'})
	defer func() {
		if r := recover(); r != nil {
			result = &content{faults: []fault{{line: first, reason: fmt.Sprintf("parsing: %v", r)}}}
		}
	}()
	text, bad := toJSON(c)
	if bad != nil {
		result.faults = append(result.faults, *bad)
		return result
	}
	d.decodeOne(result, text, source{text: c.text, json: c.json}, first)
	return result
}

// toJSON returns the document as JSON, or what is wrong with it.
func toJSON(c chunk) ([]byte, *fault) {
	if c.json {
		if err := json.Unmarshal(c.text, new(json.RawMessage)); err != nil {
			return nil, &fault{line: jsonErrorLine(c.text, err), reason: "parsing JSON: " + err.Error()}
		}
		return c.text, nil
	}
	if text, ok := plainToJSON(c.text); ok {
		return text, nil
	}
	text, err := yaml.YAMLToJSONStrict(c.text)
	if err != nil {
		line, reason := yamlError(err)
		return nil, &fault{line: line, reason: "parsing YAML: " + reason}
	}
	return text, nil
}

type typeMeta struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Items      []json.RawMessage `json:"items"`
}

// decodeOne reads an object, or a list of them, from JSON.
func (d decoder) decodeOne(to *content, text []byte, from source, line int) {
	if bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
		return
	}
	var meta typeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &meta); err != nil || meta.Kind == "" {
		reason := "Required value: must be an object with apiVersion and kind"
		to.faults = append(to.faults, fault{line: line, field: joinPath(from.prefix, "kind"), reason: reason})
		return
	}
	switch versions := newObject[meta.Kind]; {
	case isList(meta):
		d.decodeItems(to, meta.Items, from)
	case versions == nil || ofAnotherProject(meta.APIVersion):
		to.skipped = append(to.skipped, strings.TrimSpace(meta.APIVersion+" "+meta.Kind))
	case versions[meta.APIVersion] == nil:
		d.wrongVersion(to, meta, text, from, line)
	default:
		d.decodeObject(to, versions[meta.APIVersion](), meta.Kind, text, from, line)
	}
}

func isList(meta typeMeta) bool {
	kind, found := strings.CutSuffix(meta.Kind, "List")
	return found && (kind == "" || newObject[kind] != nil) && !ofAnotherProject(meta.APIVersion)
}

// ofAnotherProject reports whether an API group is somebody's own, in which a
// kind of a familiar name means something else.
func ofAnotherProject(apiVersion string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

func (d decoder) decodeItems(to *content, items []json.RawMessage, from source) {
	for i, item := range items {
		inner := from
		inner.prefix = joinPath(from.prefix, "items["+strconv.Itoa(i)+"]")
		d.decodeOne(to, item, inner, lineOf(from.text, from.json, inner.prefix))
	}
}

func joinPath(prefix, path string) string {
	if prefix == "" || path == "" {
		return prefix + path
	}
	return prefix + "." + path
}

// wrongVersion refuses an object whose kind is known and whose version isn't.
func (d decoder) wrongVersion(to *content, meta typeMeta, text []byte, from source, line int) {
	var named metav1.PartialObjectMetadata
	_ = kjson.UnmarshalCaseSensitivePreserveInts(text, &named) // what can't be read stays empty
	right := slices.Collect(maps.Keys(newObject[meta.Kind]))[0]
	reason := fmt.Sprintf("Unsupported value: %q: supported values: %q", meta.APIVersion, right)
	if meta.APIVersion == "" {
		reason = fmt.Sprintf("Required value: must be %q", right)
	}
	key := discovery.Key{Namespace: named.Namespace, Name: named.Name}
	if meta.Kind != "Node" && meta.Kind != "Namespace" {
		key.Namespace = cmp.Or(key.Namespace, corev1.NamespaceDefault)
	}
	to.add(&object{
		id: objectID{kind: meta.Kind, key: key}, line: line,
		refused: []fault{from.fault("apiVersion", reason)},
	}, from)
}

// add takes an object in. One without a name can't be told from others: what
// is wrong with it is wrong with the document.
func (c *content) add(o *object, from source) {
	if o.id.key.Name != "" {
		o.place = len(c.objects)
		c.objects = append(c.objects, o)
		return
	}
	if len(o.refused) == 0 {
		o.refused = []fault{from.fault("metadata.name", "Required value: name is required")}
	}
	for _, f := range o.refused {
		f.field = joinPath(from.prefix, f.field)
		c.faults = append(c.faults, f)
	}
}

func (d decoder) decodeObject(to *content, api runtime.Object, kind string, text []byte, from source, line int) {
	unknown, err := kjson.UnmarshalStrict(text, api)
	d.options.Default(api)
	o := &object{id: objectID{kind: kind, key: convert.KeyOf(api)}, api: api, line: line}
	for _, e := range unknown {
		o.warnings = append(o.warnings, from.strictFault(e))
	}
	if err != nil {
		o.refused = append(o.refused, from.decodeFault(text, err))
	} else {
		for _, e := range d.options.Validate(api, nil) {
			o.refused = append(o.refused, from.fault(e.Field, e.ErrorBody()))
		}
	}
	slim(api)
	if kind == "Service" {
		from.text = bytes.Clone(from.text)
		o.source = &from
	}
	to.add(o, from)
}

// slim drops what nothing here reads of the objects that there are most of, so
// that 100,000 of them fit.
func slim(api runtime.Object) {
	pod, ok := api.(*corev1.Pod)
	if !ok {
		return
	}
	pod.ManagedFields, pod.Spec.Volumes, pod.Spec.Affinity, pod.Spec.Tolerations = nil, nil, nil, nil
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			c := &list[i]
			c.Env, c.EnvFrom, c.VolumeMounts, c.VolumeDevices = nil, nil, nil, nil
			c.LivenessProbe, c.StartupProbe, c.Lifecycle, c.SecurityContext = nil, nil, nil, nil
		}
	}
}
