package userspace

import (
	"fmt"
	"io"
	"net"
	"sync"
)

// join copies in both directions until both have ended.
func join(client, endpoint *net.TCPConn) {
	var other sync.WaitGroup
	other.Go(func() { pass(endpoint, client) })
	pass(client, endpoint)
	other.Wait()
	_ = client.Close()
	_ = endpoint.Close()
}

// pass copies one direction and hands on how it ended: an end of stream as
// such, so that the other direction goes on, and everything else as a reset.
func pass(to, from *net.TCPConn) {
	if err := copyStream(to, from); err != nil {
		reset(to)
		reset(from)
		return
	}
	_ = to.CloseWrite()
}

// copyStream copies the first bytes through a small buffer, and only what then
// still comes by splice: a pipe for each direction of each idle or short
// connection would cost more files than all else.
func copyStream(to, from *net.TCPConn) error {
	const head = 64 << 10
	buffer := heads.Get().(*[headBuffer]byte)
	n, err := io.CopyBuffer(struct{ io.Writer }{to}, io.LimitReader(from, head), buffer[:])
	heads.Put(buffer)
	if err == nil && n == head {
		_, err = io.Copy(to, from)
	}
	if err != nil {
		return fmt.Errorf("copying: %w", err)
	}
	return nil
}

const headBuffer = 4 << 10

var heads = sync.Pool{New: func() any { return new([headBuffer]byte) }}

// reset closes a connection so that the peer sees a reset, not an end of stream.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
