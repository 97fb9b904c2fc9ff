// Package ruleset programs one nf_tables table of family inet over netlink,
// for backends whose rules seldom change and whose sets do.
//
//	Table ──────> Conn.Commit(Transaction)   chains, elements: all or nothing
//	(sets, chains)
//	              Conn.Look ──> Contents     what the kernel holds
//	              Conn.Try                   whether the kernel could
//	              Watch ──────> drift()      somebody else changed it
//
// It knows nothing of Services. Keys and values are the bytes that stand in the
// kernel's registers, kept in strings so that they can be compared and be keys
// of maps. A rule carries a fingerprint of itself in its comment, by which a
// later run recognises it.
//
// Invariants: a transaction happens as a whole or not at all; nothing is ever
// concluded from a look that somebody disturbed; other tables are not touched.
package ruleset
