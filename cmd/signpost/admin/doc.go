// Package admin is the interface between a running server and the commands
// that ask it questions: HTTP with JSON over a unix socket of mode 0600.
//
//	signpost get ──> Client ──unix socket──> Handler ──> View ──> snapshot, plan, records
//
// GET /v1/{resource} lists services, endpoints, pods, records or
// virtualservers as a [List]; with ?watch=true it goes on with one [Event] a
// line as things change. What Kubernetes has a kind for comes as an object of
// that kind, so that tools can read it; the others have kinds of their own.
//
// The package changes nothing in the server: it only reads immutable views.
package admin
