package lab

import (
	"sync"
	"time"
)

// loadAtOnce is how many calls of a [Load] are under way at most.
const loadAtOnce = 32

// Load calls connect with 0, 1, 2 and so on, perSecond times a second, each time
// in a goroutine of its own, until done is closed, and returns how often when all
// have returned. A machine that is too slow for that calls less often: there
// the calls would only wait for each other.
func Load(perSecond int, done <-chan struct{}, connect func(n int)) (calls int) {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	slots := make(chan struct{}, loadAtOnce)
	var clients sync.WaitGroup
	defer clients.Wait()
	for ; ; calls++ {
		select {
		case <-done:
			return calls
		case slots <- struct{}{}:
		}
		n := calls
		clients.Go(func() {
			connect(n)
			<-slots
		})
		select {
		case <-done:
			return calls + 1
		case <-tick.C:
		}
	}
}
