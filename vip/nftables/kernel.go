package nftables

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Limits of a netlink conversation.
const (
	// socketBuffer lets one transaction hold the elements of some 20,000
	// Services; the kernel takes no message larger than the socket's buffer.
	socketBuffer = 64 << 20
	// elementsPerMessage keeps a message's element list under the 64 KiB that
	// a netlink attribute can hold.
	elementsPerMessage = 300
	// replyTimeout bounds the wait for the kernel's answer to one request, if
	// the caller's context does not bound it sooner.
	replyTimeout = 60 * time.Second
)

// kernel is a conversation with the kernel about one table.
type kernel struct {
	conn   *nft.Conn
	socket *netlink.Conn
	port   uint32 // the socket's, by which the kernel names the author of a change
	table  *nft.Table
}

func openKernel() (*kernel, error) {
	k := &kernel{table: &nft.Table{Name: tableName, Family: nft.TableFamilyINet}}
	keep := func(c *netlink.Conn) error {
		k.socket = c
		return errors.Join(c.SetReadBuffer(socketBuffer), c.SetWriteBuffer(socketBuffer), widen(c))
	}
	conn, err := nft.New(nft.AsLasting(), nft.WithSockOptions(keep))
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket: %w", err)
	}
	k.conn = conn
	if k.port, err = portOf(k.socket); err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

func portOf(c *netlink.Conn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("reading the netlink socket's port: %w", err)
	}
	var name unix.Sockaddr
	var failed error
	if err := raw.Control(func(fd uintptr) { name, failed = unix.Getsockname(int(fd)) }); err != nil || failed != nil {
		return 0, fmt.Errorf("reading the netlink socket's port: %w", errors.Join(err, failed))
	}
	own, ok := name.(*unix.SockaddrNetlink)
	if !ok {
		return 0, errors.New("reading the netlink socket's port: not a netlink socket's")
	}
	return own.Pid, nil
}

// dumpBuffer is the largest piece in which the kernel hands out a dump.
const dumpBuffer = 32 << 10

// widen has the kernel hand out dumps in the largest pieces, which it does on
// a socket that was once read with a buffer as large. It matters: for every
// piece the kernel walks through the set from its start.
func widen(c *netlink.Conn) error {
	if _, err := c.Send(generationRequest()); err != nil {
		return fmt.Errorf("asking for the ruleset's generation: %w", err)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("reading from the netlink socket: %w", err)
	}
	var received error
	err = raw.Read(func(fd uintptr) bool {
		_, _, received = unix.Recvfrom(int(fd), make([]byte, dumpBuffer), 0)
		return !errors.Is(received, unix.EAGAIN)
	})
	if err = errors.Join(err, received); err != nil {
		return fmt.Errorf("reading from the netlink socket: %w", err)
	}
	return nil
}

func (k *kernel) close() error {
	if err := k.conn.CloseLasting(); err != nil {
		return fmt.Errorf("closing the netlink socket: %w", err)
	}
	return nil
}

// bound limits the following requests to the context's deadline.
func (k *kernel) bound(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	deadline, ok := ctx.Deadline()
	if limit := time.Now().Add(replyTimeout); !ok || limit.Before(deadline) {
		deadline = limit
	}
	if err := k.socket.SetDeadline(deadline); err != nil {
		return fmt.Errorf("setting the netlink deadline: %w", err)
	}
	return nil
}

// commit carries out a transaction. On error nothing of it was done.
func (k *kernel) commit(ctx context.Context, t *transaction) error {
	if err := k.bound(ctx); err != nil {
		return err
	}
	if t.create {
		if err := k.create(); err != nil {
			return err
		}
	}
	k.writeChains(t.newChains)
	if err := errors.Join(k.writeElements(t.del, k.conn.SetDeleteElements), k.writeElements(t.add, k.conn.SetAddElements)); err != nil {
		return err
	}
	for _, name := range t.oldChains {
		k.conn.FlushChain(k.chain(name))
	}
	for _, name := range t.oldChains {
		k.conn.DelChain(k.chain(name))
	}
	return k.flush()
}

func (k *kernel) flush() error {
	if err := k.conn.Flush(); err != nil {
		return fmt.Errorf("writing to nftables: %w", err)
	}
	return nil
}

// writeChains creates chains, then fills them: they may refer to each other.
func (k *kernel) writeChains(chains []chain) {
	for _, c := range chains {
		k.conn.AddChain(k.chain(c.name))
	}
	for _, c := range chains {
		k.conn.FlushChain(k.chain(c.name))
		for _, r := range c.rules {
			k.conn.AddRule(&nft.Rule{Table: k.table, Chain: k.chain(c.name), Exprs: r.exprs, UserData: r.userData()})
		}
	}
}

// chain describes a chain; the base chains with their hooks.
func (k *kernel) chain(name string) *nft.Chain {
	c := &nft.Chain{Name: name, Table: k.table}
	switch name {
	case preroutingChain:
		c.Hooknum, c.Priority = nft.ChainHookPrerouting, nft.ChainPriorityNATDest
	case outputChain:
		c.Hooknum, c.Priority = nft.ChainHookOutput, nft.ChainPriorityNATDest
	case postroutingChain:
		c.Hooknum, c.Priority = nft.ChainHookPostrouting, nft.ChainPriorityNATSource
	default:
		return c
	}
	c.Type = nft.ChainTypeNAT
	return c
}

func (k *kernel) writeElements(elements []element, write func(*nft.Set, []nft.SetElement) error) error {
	bySet := map[*set][]nft.SetElement{}
	for _, e := range elements {
		bySet[e.set] = append(bySet[e.set], e.netlink())
	}
	for _, s := range allSets {
		for part := range slices.Chunk(bySet[s], elementsPerMessage) {
			if err := write(k.set(s), part); err != nil {
				return fmt.Errorf("encoding elements of %q: %w", s.name, err)
			}
		}
	}
	return nil
}

func (e element) netlink() nft.SetElement {
	out := nft.SetElement{Key: []byte(e.key), KeyEnd: []byte(e.last), Val: []byte(e.value)}
	if e.chain != "" {
		out.VerdictData = &expr.Verdict{Kind: expr.VerdictGoto, Chain: e.chain}
	}
	return out
}

// set describes a set as it is created.
func (k *kernel) set(s *set) *nft.Set {
	out := &nft.Set{
		Table: k.table, Name: s.name, KeyType: concat(s.key), Concatenation: len(s.key) > 1,
		Interval: s.intervals, IsMap: s.data != nil,
	}
	if s.data != nil {
		out.DataType = concat(s.data)
	}
	if s.dynamic {
		out.Dynamic, out.HasTimeout, out.Size = true, true, affinityLimit
	}
	return out
}

// concat is the type of a key or value made of parts. No set here has more
// parts than the kernel's type number has room for.
func concat(parts []nft.SetDatatype) nft.SetDatatype {
	if len(parts) == 1 {
		return parts[0]
	}
	return nft.MustConcatSetType(parts...)
}

// create makes the table and its sets anew, replacing one that is there. It
// goes out with the transaction.
func (k *kernel) create() error {
	k.conn.AddTable(k.table)
	k.conn.DelTable(k.table)
	k.conn.AddTable(k.table)
	for _, s := range allSets {
		if err := k.conn.AddSet(k.set(s), nil); err != nil {
			return fmt.Errorf("describing set %q: %w", s.name, err)
		}
	}
	return nil
}

// remove deletes the table, if there is one.
func (k *kernel) remove(ctx context.Context) error {
	if err := k.bound(ctx); err != nil {
		return err
	}
	// First nothing leads into the table any more. A packet on its way through it
	// in the moment in which maps and sets go could find a cluster address without
	// its service, and be refused.
	k.conn.FlushChain(k.chain(preroutingChain))
	k.conn.FlushChain(k.chain(outputChain))
	if err := k.flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	// Adding first makes the deletion succeed whether or not the table exists.
	k.conn.AddTable(k.table)
	k.conn.DelTable(k.table)
	return k.flush()
}

func (r rule) userData() []byte {
	return userdata.AppendString(nil, userdata.TypeComment, r.label())
}

// label is the rule's comment in the kernel: its words and a fingerprint of
// what it does, by which a later run recognises it.
func (r rule) label() string { return r.comment + " #" + r.fingerprint() }

func (r rule) fingerprint() string {
	sum := sha256.New()
	for _, e := range r.exprs {
		data, err := expr.Marshal(unix.NFPROTO_INET, e)
		if err != nil {
			continue // the kernel will be told of it, and say what is wrong
		}
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// reason shortens the kernel's error to what a person can use.
func reason(err error) string {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "permission denied: CAP_NET_ADMIN is needed"
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EAFNOSUPPORT):
		return "the kernel has no nf_tables"
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP):
		return "the kernel lacks it"
	}
	return strings.TrimPrefix(err.Error(), "conn.Receive: ")
}
