package ruleset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	nft "github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"signpost/vip/internal/transactions"
)

// Limits of a netlink conversation.
const (
	// socketBuffer bounds a transaction, the kernel takes no message larger
	// than the socket's buffer: to the elements of some 20,000 Services.
	socketBuffer = 64 << 20
	// elementsPerMessage keeps a message's element list under the 64 KiB that
	// a netlink attribute can hold.
	elementsPerMessage = 300
	// replyTimeout bounds the wait for the kernel's answer to one request, if
	// the caller's context does not bound it sooner.
	replyTimeout = 60 * time.Second
	// dumpBuffer is the largest piece in which the kernel hands out a dump. It
	// uses it on a socket that was once read with a buffer as large, and walks
	// through the whole set for every piece.
	dumpBuffer = 32 << 10
)

// Conn is a conversation with the kernel about one table. It is for one
// goroutine at a time.
type Conn struct {
	name   string
	sets   []*Set
	port   uint32
	conn   *nft.Conn
	socket *netlink.Conn
	handle *nft.Table
}

// Open opens a socket in the calling thread's network namespace.
func Open(table string, sets []*Set) (*Conn, error) {
	c := &Conn{name: table, sets: sets, handle: &nft.Table{Name: table, Family: nft.TableFamilyINet}}
	keep := func(s *netlink.Conn) error {
		c.socket = s
		return errors.Join(s.SetReadBuffer(socketBuffer), s.SetWriteBuffer(socketBuffer), widen(s))
	}
	conn, err := nft.New(nft.AsLasting(), nft.WithSockOptions(keep))
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket: %w", err)
	}
	c.conn = conn
	if c.port, err = portOf(c.socket); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Port is the socket's, by which the kernel names the author of a change.
func (c *Conn) Port() uint32 { return c.port }

func portOf(s *netlink.Conn) (uint32, error) {
	raw, err := s.SyscallConn()
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

// widen has the kernel hand out dumps in the largest pieces.
func widen(s *netlink.Conn) error {
	if _, err := s.Send(transactions.Request()); err != nil {
		return fmt.Errorf("asking for the ruleset's generation: %w", err)
	}
	raw, err := s.SyscallConn()
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

// Close gives the socket back; what is in the kernel stays.
func (c *Conn) Close() error {
	if err := c.conn.CloseLasting(); err != nil {
		return fmt.Errorf("closing the netlink socket: %w", err)
	}
	return nil
}

// bound limits the following requests to the context's deadline.
func (c *Conn) bound(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	deadline, ok := ctx.Deadline()
	if limit := time.Now().Add(replyTimeout); !ok || limit.Before(deadline) {
		deadline = limit
	}
	if err := c.socket.SetDeadline(deadline); err != nil {
		return fmt.Errorf("setting the netlink deadline: %w", err)
	}
	return nil
}

// Transaction is a set of changes that the kernel makes all at once.
type Transaction struct {
	Create   bool    // make the table and its sets anew, before everything else
	Chains   []Chain // created if missing, their rules written anew
	Del, Add []Element
	Unmake   []string // chains to delete
}

// Empty reports whether there is nothing to do.
func (t *Transaction) Empty() bool {
	return !t.Create && len(t.Chains)+len(t.Del)+len(t.Add)+len(t.Unmake) == 0
}

// Commit carries out a transaction. On error nothing of it was done.
func (c *Conn) Commit(ctx context.Context, t *Transaction) error {
	if t.Empty() {
		return nil
	}
	if err := c.bound(ctx); err != nil {
		return err
	}
	if t.Create {
		if err := c.create(); err != nil {
			return err
		}
	}
	c.writeChains(t.Chains)
	if err := errors.Join(c.writeElements(t.Del, c.conn.SetDeleteElements), c.writeElements(t.Add, c.conn.SetAddElements)); err != nil {
		return err
	}
	for _, name := range t.Unmake {
		c.conn.FlushChain(Chain{Name: name}.handle(c.handle))
	}
	for _, name := range t.Unmake {
		c.conn.DelChain(Chain{Name: name}.handle(c.handle))
	}
	return c.flush()
}

// Empty takes all rules out of chains, those that exist: none of them leads on
// any more.
func (c *Conn) Empty(ctx context.Context, chains ...string) error {
	if err := c.bound(ctx); err != nil {
		return err
	}
	for _, name := range chains {
		c.conn.FlushChain(Chain{Name: name}.handle(c.handle))
	}
	if err := c.flush(); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// Remove deletes the table, if there is one.
func (c *Conn) Remove(ctx context.Context) error {
	if err := c.bound(ctx); err != nil {
		return err
	}
	// Adding first makes the deletion succeed whether or not the table exists.
	c.conn.AddTable(c.handle)
	c.conn.DelTable(c.handle)
	return c.flush()
}

// Try has the kernel make the table with its sets and chains and throw it away
// in the same transaction: nothing of it is ever seen.
func (c *Conn) Try(ctx context.Context, chains []Chain) error {
	if err := c.bound(ctx); err != nil {
		return err
	}
	if err := c.create(); err != nil {
		return err
	}
	c.writeChains(chains)
	c.conn.DelTable(c.handle)
	return c.flush()
}

func (c *Conn) flush() error {
	if err := c.conn.Flush(); err != nil {
		return fmt.Errorf("writing to nftables: %w", err)
	}
	return nil
}

// create replaces a table that is there. It goes out with the transaction.
func (c *Conn) create() error {
	c.conn.AddTable(c.handle)
	c.conn.DelTable(c.handle)
	c.conn.AddTable(c.handle)
	for _, s := range c.sets {
		if err := c.conn.AddSet(c.describe(s), nil); err != nil {
			return fmt.Errorf("describing set %q: %w", s.Name, err)
		}
	}
	return nil
}

// writeChains creates chains, then fills them: they may refer to each other.
func (c *Conn) writeChains(chains []Chain) {
	for _, chain := range chains {
		c.conn.AddChain(chain.handle(c.handle))
	}
	for _, chain := range chains {
		handle := chain.handle(c.handle)
		c.conn.FlushChain(handle)
		for _, r := range chain.Rules {
			c.conn.AddRule(&nft.Rule{Table: c.handle, Chain: handle, Exprs: r.Exprs, UserData: r.userData()})
		}
	}
}

func (c *Conn) writeElements(elements []Element, write func(*nft.Set, []nft.SetElement) error) error {
	bySet := map[*Set][]nft.SetElement{}
	for _, e := range elements {
		bySet[e.Set] = append(bySet[e.Set], e.netlink())
	}
	for _, s := range c.sets {
		for part := range slices.Chunk(bySet[s], elementsPerMessage) {
			if err := write(c.describe(s), part); err != nil {
				return fmt.Errorf("encoding elements of %q: %w", s.Name, err)
			}
		}
	}
	return nil
}

// Reason shortens the kernel's error about something to what a person can use.
func Reason(err error, something string) string {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "permission denied: CAP_NET_ADMIN is needed"
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EAFNOSUPPORT):
		return "the kernel has no nf_tables"
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP):
		return "the kernel lacks " + something
	}
	return strings.TrimPrefix(err.Error(), "conn.Receive: ")
}
