// Package echo is the server behind the Services of the examples and of the
// lab. It says who it is and whom it sees, which is all that one wants to know
// of a connection through a virtual address:
//
//	$ curl 127.1.0.1:8080
//	pod web-1 at 127.1.0.1:8080, you are 127.0.0.1:41234
//
// One server has any number of identities, each an address with a name:
//
//   - TCP: an HTTP request gets the sentence as its answer, every other line gets
//     it as a line, and so does a client that says nothing and closes.
//   - UDP: every datagram gets the sentence.
//   - SCTP, where the kernel has it: as TCP.
//   - GET /healthz is 200 or 503; /healthz?ready=false makes all identities of
//     that name not ready, and true ready again.
//
// It is not a web server, and trusts everybody.
package echo
