// Package dataplane knows which backends there are and picks one.
//
//	mode auto ──> the first of the list whose probe passes; why not the others
//	mode NAME ──> that one, or an error that says what is missing
package dataplane
