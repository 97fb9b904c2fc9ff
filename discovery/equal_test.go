package discovery

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"
	"time"
)

// These tests change every field of an object in turn, found by reflection,
// so that a field that is added later can't be forgotten in Equal.

func TestServiceEqualCoversEveryField(t *testing.T) {
	t.Parallel()
	checkEqualCovers[Service](t, (*Service).Equal, "Service.Slices[0].Trigger")
}

func TestSliceEqualCoversEveryField(t *testing.T) {
	t.Parallel()
	checkEqualCovers[Slice](t, (*Slice).Equal, "Slice.Trigger")
}

func TestPodEqualCoversEveryField(t *testing.T) {
	t.Parallel()
	checkEqualCovers[Pod](t, (*Pod).Equal)
}

func TestNodeEqualCoversEveryField(t *testing.T) {
	t.Parallel()
	checkEqualCovers[Node](t, (*Node).Equal)
}

func checkEqualCovers[T any](t *testing.T, equal func(a, b *T) bool, exempt ...string) {
	t.Helper()
	a, b := new(T), new(T)
	fill(reflect.ValueOf(a).Elem())
	fill(reflect.ValueOf(b).Elem())
	if !equal(a, b) || !equal(a, a) || equal(a, nil) || equal(nil, a) {
		t.Fatal("Equal is wrong for equal values or nil")
	}
	free := map[string]bool{}
	for _, path := range exempt {
		free[path] = true
	}
	mutate(reflect.ValueOf(b).Elem(), reflect.TypeFor[T]().Name(), func(path string) {
		if got := equal(a, b) || equal(b, a); got != free[path] {
			t.Errorf("%s was changed: Equal is %v, want %v", path, got, free[path])
		}
		delete(free, path)
	})
	if len(free) > 0 {
		t.Errorf("no such fields: %v", free)
	}
	if !equal(a, b) {
		t.Fatal("the changes were not undone")
	}
}

// values gives two different values of each opaque type.
var values = map[reflect.Type][2]any{
	reflect.TypeFor[netip.Addr]():   {netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")},
	reflect.TypeFor[netip.Prefix](): {netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.0.2.0/25")},
	reflect.TypeFor[time.Time]():    {time.Unix(1, 0), time.Unix(2, 0)},
}

// fill gives every field a value and every slice, map and pointer one element.
func fill(v reflect.Value) {
	if pair, opaque := values[v.Type()]; opaque {
		v.Set(reflect.ValueOf(pair[0]))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(filled(v.Type().Key()), filled(v.Type().Elem()))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	default:
		setLeaf(v, 1)
	}
}

func filled(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	fill(v)
	return v
}

func setLeaf(v reflect.Value, n int) {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprint("v", n))
	case v.Kind() == reflect.Bool:
		v.SetBool(n == 1)
	case v.CanInt():
		v.SetInt(int64(n))
	case v.CanUint():
		v.SetUint(uint64(n))
	default:
		panic("a kind of field that this test does not know: " + v.Type().String())
	}
}

// mutate changes one thing at a time, calls check, and undoes the change.
func mutate(v reflect.Value, path string, check func(path string)) {
	if pair, opaque := values[v.Type()]; opaque {
		replace(v, reflect.ValueOf(pair[1]), path, check)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			mutate(v.Field(i), path+"."+v.Type().Field(i).Name, check)
		}
	case reflect.Slice:
		mutate(v.Index(0), path+"[0]", check)
		replace(v, reflect.Append(reflect.MakeSlice(v.Type(), 0, 2), v.Index(0), v.Index(0)), path+"[longer]", check)
		replace(v, reflect.Zero(v.Type()), path+"[none]", check)
	case reflect.Map:
		other := reflect.MakeMap(v.Type())
		value := reflect.New(v.Type().Elem()).Elem()
		setLeaf(value, 2)
		other.SetMapIndex(filled(v.Type().Key()), value)
		replace(v, other, path+"[other value]", check)
		replace(v, reflect.Zero(v.Type()), path+"[none]", check)
	case reflect.Pointer:
		mutate(v.Elem(), path, check)
	default:
		other := reflect.New(v.Type()).Elem()
		setLeaf(other, 2)
		replace(v, other, path, check)
	}
}

func replace(v, other reflect.Value, path string, check func(string)) {
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	v.Set(other)
	check(path)
	v.Set(old)
}
