// Package yield lets a browser handle events while long work computes in its one thread.
package yield

import (
	"syscall/js"
	"time"
)

// slice is how long work computes between two turns of the event loop. A turn takes some 50
// microseconds.
const slice = 8 * time.Millisecond

var (
	next    time.Time     // when the event loop should have its next turn
	waiting chan struct{} // closed after the event loop's turn; nil while no goroutine waits
	port    js.Value      // sends the message that the event loop handles last in a turn
)

// ToEvents waits until the event loop has handled its events, if that is due. A message takes a
// fiftieth of the time that a timer takes in browsers. All goroutines must call it now and then,
// because the event loop has its turn only when all of them wait.
func ToEvents() {
	if time.Now().Before(next) {
		return
	}
	if waiting == nil {
		if port.IsUndefined() {
			channel := js.Global().Get("MessageChannel").New()
			channel.Get("port1").Set("onmessage", js.FuncOf(func(js.Value, []js.Value) any {
				next = time.Now().Add(slice)
				close(waiting)
				waiting = nil
				return nil
			}))
			port = channel.Get("port2")
		}
		waiting = make(chan struct{})
		port.Call("postMessage", nil)
	}
	<-waiting
}
