// Package manifest keeps a store current with a folder of Kubernetes
// manifests: it is API server, endpoints controller and kubelet's probes to
// those Services.
//
//	files ──split──> documents ──decode──> objects ──decide──> objects in force
//	  ^   (by hash: only new ones go on)   defaulted,          (one definition each,
//	inotify,                               validated            last good version)
//	rescan                                                             │
//	                                                                   v
//	store <──one revision── model <──convert── endpoints <── allocation, saved
//	                        (only the services that the change touches)
//
// A file holds YAML or JSON, any number of documents, lists among them. Hidden
// files and folders are left out and symlinks followed, as a mounted ConfigMap
// needs it. Kinds that are not used are skipped with one notice each.
//
// The folder is the truth, not a sequence of requests: an edit replaces the
// object, also where an API server would call the field immutable, because
// after a restart the same folder has to mean the same.
//
// Stale is better than partial. A document that is refused keeps the last good
// version of its object; one that can't be understood keeps all objects that
// the file has lost; a file or folder that can't be read keeps everything in
// it. A file that was written in place and looks half-written, and one that is
// gone, count only after they stayed so for a moment.
//
// What it does not: it sends nothing to an API server, and it knows neither
// DNS nor the dataplane.
//
// Invariants:
//   - One turn of the loop publishes at most one revision, however many files
//     changed.
//   - No address or port is published before the state file holds it.
//   - What a change costs is the reading of the changed files, the decoding of
//     the changed documents and the services that they touch.
//   - Of an object that is defined twice, the first definition by path and
//     place counts.
//   - Nothing panics, whatever is in a file, and no document takes down
//     another's objects.
package manifest
