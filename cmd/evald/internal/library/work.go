package library

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/selfplay"
)

// Work is a long call. Its caller calls Wait repeatedly, from one goroutine at a time, and finally Release. The memory that the call writes
// to must stay valid until Release has returned.
type Work struct {
	cancel   context.CancelFunc
	ended    chan struct{}
	err      error               // valid once ended is closed
	result   string              // JSON of calls that have one; valid once ended is closed
	function *Function           // the first one
	games    chan *selfplay.Game // nil unless the call plays games
	done     atomic.Int64
	all      int64
}

// Event is the reason why Wait returned.
type Event int

// The events.
const (
	Ended   Event = iota // the call has ended without an error
	Nothing              // nothing happened until the time was over
	Asked                // the caller's function must compute Ask
	Played               // a Game is over
)

// begin runs call in a goroutine. function may be nil. all is the number of items that the call will process, for Progress.
func begin(function *Function, all int, games chan *selfplay.Game, call func(ctx context.Context, w *Work) error) *Work {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Work{cancel: cancel, ended: make(chan struct{}), function: function, games: games, all: int64(all)}
	if function != nil {
		lend(1)
	}
	go func() {
		defer close(w.ended)
		defer cancel()
		if function != nil {
			defer lend(-1)
		}
		defer fault.Catch(&w.err)
		w.err = call(ctx, w)
	}()
	return w
}

// processors guards changes of GOMAXPROCS.
var processors sync.Mutex

// lend raises GOMAXPROCS by n. A call whose network is a function needs one more: after Wait has returned a batch to C, Go still reserves a
// processor for the caller's thread, for up to 10 ms. Without another one, a core would be idle while the function waits for a GPU.
func lend(n int) {
	processors.Lock()
	defer processors.Unlock()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
}

// Result is the result of Wait.
type Result struct {
	Event Event
	Ask   *Ask           // if Event is Asked
	Game  *selfplay.Game // if Event is Played
}

// Wait waits for an event for most at most. With an error the call has ended and failed.
func (w *Work) Wait(most time.Duration) (Result, error) {
	var asks chan *Ask
	if w.function != nil {
		asks = w.function.asks
	}
	select { // no timer if an event is already there
	case a := <-asks:
		return Result{Event: Asked, Ask: a}, nil
	case g := <-w.games:
		return Result{Event: Played, Game: g}, nil
	default:
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case a := <-asks:
		return Result{Event: Asked, Ask: a}, nil
	case g := <-w.games:
		return Result{Event: Played, Game: g}, nil
	case <-timer.C:
		return Result{Event: Nothing}, nil
	case <-w.ended:
		select { // games that were played before the end
		case g := <-w.games:
			return Result{Event: Played, Game: g}, nil
		default:
			return Result{Event: Ended}, w.err
		}
	}
}

// report makes a value the Work's result.
func (w *Work) report(result any) error {
	text, err := json.Marshal(result)
	w.result = string(text)
	return err
}

// Result returns the result of a call as JSON. It is an error before the call has ended, or if the
// call failed.
func (w *Work) Result() (string, error) {
	select {
	case <-w.ended:
		return w.result, w.err
	default:
		return "", errors.New("the call has not ended: call wait")
	}
}

// Progress returns the number of items that the call has processed, and of all that it will process, 0 if unknown.
func (w *Work) Progress() (done, all int64) { return w.done.Load(), w.all }

// errReleased is the answer to a batch of a call that the caller has released.
var errReleased = errors.New("the call was given up")

// Release ends the call if necessary, and waits until it no longer uses the caller's memory.
func (w *Work) Release() {
	w.cancel()
	for {
		select {
		case <-w.ended:
			return
		case <-w.games:
		case a := <-w.asks():
			a.Answer(errReleased)
		}
	}
}

func (w *Work) asks() chan *Ask {
	if w.function == nil {
		return nil
	}
	return w.function.asks
}
