package kube

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"signpost/discovery"
)

// fetcher asks the API server for the objects of one kind.
type fetcher struct {
	client  rest.Interface
	table   *table
	health  *health
	lacking time.Duration   // how long a kind is left alone that the server lacks
	running *sync.WaitGroup // of the watches' goroutines

	last *converting // the reflector has one watch at a time
}

// watch implements [cache.WatchFuncWithContext].
func (f *fetcher) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	f.stopLast()
	o.Watch = true
	o.FieldSelector = f.table.resource.fields
	initial := o.SendInitialEvents != nil
	from, err := f.client.Get().Resource(f.table.resource.name).VersionedParams(&o, metav1.ParameterCodec).Watch(ctx)
	if err == nil && unanswered(from) {
		err = errUnanswered
	}
	switch {
	case err != nil && initial && pausesDeaf(err, o):
		return nil, errors.New(err.Error()) // as one that it doesn't know
	case err != nil && initial:
		return nil, err //nolint:wrapcheck // the reflector looks at it, and lists instead
	case err != nil:
		f.failed(ctx, err)
		return nil, err //nolint:wrapcheck // the reflector looks at it
	case !initial:
		f.health.recovered(f.table.resource.name)
	}
	w := &converting{table: f.table, from: from, out: make(chan watch.Event), stopped: make(chan struct{}), ended: ctx.Done()}
	f.last = w
	f.running.Go(w.run)
	return w, nil
}

// errUnanswered is why a watch did not begin, where the library keeps the cause
// to itself.
var errUnanswered = errors.New("the connection ended, or took too long, before there was an answer")

// unanswered reports what the library returns in place of the error if the
// connection ends or times out early: a watch with nothing in it. That is how it
// looks from here when a load balancer has no API server left behind it.
func unanswered(w watch.Interface) bool {
	return reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch())
}

// stopLast ends the watch before this one: the reflector leaves it open if what
// it has delivered is not accepted.
func (f *fetcher) stopLast() {
	if f.last != nil {
		f.last.Stop()
		f.last = nil
	}
}

// failed notes a failure. That a resource version is too old is none: the
// reflector lists again.
func (f *fetcher) failed(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		return
	case f.lacks(err):
		f.health.lacking(f.table.resource.name, err)
	default:
		f.health.failed(f.table.resource.name, err)
	}
	f.table.settle()
}

// lacks reports an error by which the server says that it doesn't have an
// optional kind, or doesn't show it to this account.
func (f *fetcher) lacks(err error) bool {
	refused := apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
	return f.table.resource.optional && refused && !f.health.passing(f.table.resource.name)
}

// retriable reports an error after which the reflector tries the same again.
func retriable(err error) bool {
	return utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err)
}

// pausesDeaf reports an error at which the reflector would wait, deaf to the end
// of its context, or try again without a pause at all. At others it lists: that
// fails likewise, and then it waits where it listens.
func pausesDeaf(err error, o metav1.ListOptions) bool {
	return retriable(err) || (o.ResourceVersion == "" && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)))
}

// converting is a watch whose objects are items. What the server sent is
// converted as it comes, so that initial events never pile up as API objects.
type converting struct {
	table   *table
	from    watch.Interface
	out     chan watch.Event
	stopped chan struct{}
	ended   <-chan struct{} // of the context
	once    sync.Once
}

// ResultChan implements [watch.Interface].
func (c *converting) ResultChan() <-chan watch.Event { return c.out }

// Stop implements [watch.Interface].
func (c *converting) Stop() {
	c.once.Do(func() {
		close(c.stopped)
		c.from.Stop()
	})
}

func (c *converting) run() {
	defer close(c.out)
	for event := range c.from.ResultChan() {
		if event.Type != watch.Error {
			o, ok := event.Object.(object)
			if !ok {
				continue // no kind that was asked for
			}
			event.Object = c.convert(event.Type, o)
		}
		select {
		case c.out <- event:
			continue
		case <-c.stopped:
		case <-c.ended:
			c.Stop()
		}
		for range c.from.ResultChan() { //nolint:revive // what the library still has in hand; the watch is stopped, so this ends
		}
		return
	}
}

func (c *converting) convert(t watch.EventType, o object) *item {
	switch t {
	case watch.Bookmark:
		ended := o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
		return &item{version: o.GetResourceVersion(), ended: ended}
	case watch.Deleted:
		return &item{key: keyOf(o), uid: o.GetUID(), version: o.GetResourceVersion()}
	default:
		return c.table.resource.item(o, c.table.find(keyOf(o)))
	}
}

func keyOf(o metav1.Object) discovery.Key {
	return discovery.Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}
