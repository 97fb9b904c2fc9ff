// Package transactions reads what the kernel tells of nf_tables transactions:
// their count, the generation, and a notification of each object that one
// changed. Whose transaction it was, and whether it matters, is the listener's
// to say.
package transactions
