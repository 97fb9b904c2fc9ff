package flood

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/net/ipv4"
)

const (
	batch = 128 // datagrams between two questions: they fit into the buffers of the kernel
	round = 64 * batch
	// patience is how long a question waits before it counts as lost.
	patience = time.Second
)

// tally is what was sent, and what became of the questions.
type tally struct {
	sent, junk, questions, lost, replies int
}

func (a *tally) add(b tally) {
	a.sent += b.sent
	a.junk += b.junk
	a.questions += b.questions
	a.lost += b.lost
	a.replies += b.replies
}

// filler writes a datagram over a buffer and returns it.
type filler func([]byte) []byte

// worker sends from one port.
type worker struct {
	fill    filler
	conn    *net.UDPConn
	pc      *ipv4.PacketConn
	out, in []ipv4.Message
	id      uint16
	tally
}

// flood sends n datagrams, each round from another port, so that all of the
// program's sockets get some.
func flood(ctx context.Context, to string, fill filler, n int, paced bool) (tally, error) {
	var all tally
	for all.sent < n && ctx.Err() == nil {
		w, err := dial(ctx, to, fill)
		if err != nil {
			return all, err
		}
		err = w.round(ctx, min(round, n-all.sent), paced)
		all.add(w.tally)
		if err = errors.Join(err, w.conn.Close()); err != nil {
			return all, err
		}
	}
	return all, ctx.Err()
}

func dial(ctx context.Context, to string, fill filler) (*worker, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "udp4", to)
	if err != nil {
		return nil, err
	}
	w := &worker{fill: fill, conn: conn.(*net.UDPConn), out: messages(), in: messages()}
	w.pc = ipv4.NewPacketConn(w.conn)
	return w, w.conn.SetReadBuffer(1 << 20)
}

func messages() []ipv4.Message {
	list := make([]ipv4.Message, batch)
	for i := range list {
		list[i].Buffers = [][]byte{make([]byte, largest)}
	}
	return list
}

// round sends n datagrams from this port, and at the end asks until there is an
// answer.
func (w *worker) round(ctx context.Context, n int, paced bool) error {
	for ctx.Err() == nil && w.sent < n {
		if err := w.send(min(batch, n-w.sent)); err != nil {
			return err
		}
		if !paced && w.sent < n {
			continue
		}
		if err := w.ask(); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) send(n int) error {
	out := w.out[:n]
	for i := range out {
		b := w.fill(out[i].Buffers[0])
		out[i].Buffers[0] = b
		if junk(b) {
			w.junk++
		}
	}
	w.sent += n
	for len(out) > 0 {
		done, err := w.pc.WriteBatch(out, 0)
		if err != nil {
			return fmt.Errorf("sending: %w", err)
		}
		out = out[done:]
	}
	return nil
}

// attempts are how often a question is asked before the program counts as
// silent.
const attempts = 10

// question is for A of the name "fence", with room for an id.
const question = "\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + fence + "\x00\x01\x00\x01"

const fence = "\x05fence\x07default\x03svc\x07cluster\x05local\x00"

// ask asks a question until it is answered. What came before it from this port
// has been seen by then.
func (w *worker) ask() error {
	for range attempts {
		w.id++
		w.questions++
		if _, err := w.conn.Write(append(binary.BigEndian.AppendUint16(nil, w.id), question...)); err != nil {
			return fmt.Errorf("asking: %w", err)
		}
		err := w.await()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		w.lost++
	}
	return fmt.Errorf("no answer to %d questions", attempts)
}

// await reads replies up to that to the question.
func (w *worker) await() error {
	if err := w.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	for {
		n, err := w.pc.ReadBatch(w.in, 0)
		if err != nil {
			return fmt.Errorf("waiting for an answer: %w", err)
		}
		w.replies += n
		for _, m := range w.in[:n] {
			b := m.Buffers[0][:m.N]
			if len(b) < headerLen || binary.BigEndian.Uint16(b) != w.id || !bytes.HasPrefix(b[headerLen:], []byte(fence)) {
				continue
			}
			if !bytes.HasSuffix(b, []byte{0, 4, 10, 96, 0, 10}) {
				return fmt.Errorf("the answer is wrong: %x", b)
			}
			return nil
		}
	}
}
