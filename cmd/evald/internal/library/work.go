package library

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/evald/evald/engine/selfplay"
)

// Work is a long call. Its caller calls Wait repeatedly, from one goroutine at a time, and finally Release. The memory
// that the call writes to must stay until then.
type Work struct {
	cancel   context.CancelFunc
	ended    chan struct{}
	err      error // once ended is closed
	function *Function
	games    chan *selfplay.Game // nil if the call gives none
	done     atomic.Int64
	all      int64
}

// Event is the reason why Wait returned.
type Event int

// The events.
const (
	Ended   Event = iota // the call has ended without an error
	Nothing              // the time is over
	Asked                // the caller's function has to compute Ask
	Played               // there is a Game
)

// begin runs call in a goroutine. function may be nil. all is how many things the call does, for its progress.
func begin(function *Function, all int, games chan *selfplay.Game, call func(ctx context.Context, w *Work) error) *Work {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Work{cancel: cancel, ended: make(chan struct{}), function: function, games: games, all: int64(all)}
	go func() {
		defer close(w.ended)
		defer cancel()
		defer func() {
			if r := recover(); r != nil { // another program's process must not end
				w.err = fmt.Errorf("evald has a fault: %v", r)
			}
		}()
		w.err = call(ctx, w)
	}()
	return w
}

// Result is the result of Wait.
type Result struct {
	Event Event
	Ask   *Ask           // of Asked
	Game  *selfplay.Game // of Played
}

// Wait waits for an event until the time is over. An error is that of the call, which has ended then.
func (w *Work) Wait(most time.Duration) (Result, error) {
	var asks chan *Ask
	if w.function != nil {
		asks = w.function.asks
	}
	select { // without a timer, where there is something already
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

// Progress is the number of things that the call has done, and of all that it will do, 0 if unknown.
func (w *Work) Progress() (done, all int64) { return w.done.Load(), w.all }

// decode reads options, of which none may be unknown.
func decode(options string, into any) error {
	d := json.NewDecoder(strings.NewReader(options))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// errReleased ends a call whose caller has released it.
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

// asks are those of the function, or nil.
func (w *Work) asks() chan *Ask {
	if w.function == nil {
		return nil
	}
	return w.function.asks
}
