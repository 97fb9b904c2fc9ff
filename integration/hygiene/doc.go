// Package hygiene has tests of the repository itself: who imports whom, that
// every package says what it is, that the tree has the folders that it should.
package hygiene
