// Package corefile gives a Corefile its meaning: text in, a [Config] out, and
// every problem with file, line and directive.
//
//	text ──> server blocks ──> lines ──> table: directive → function ──> Config
//
// The format is CoreDNS's and so is the parser: blocks, snippets, imports and
// environment variables come with it. The words are CoreDNS's too, plus vip,
// manifests and admin. One table in table.go lists them all; each has a small
// function that fills a field. A word that CoreDNS knows and this program
// doesn't is refused by name: nothing is ever silently accepted.
//
// The package opens no file but the Corefile and what it imports, and checks
// nothing that only the machine can tell.
package corefile
