package learn

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/evald/evald/engine/durable"
)

// A full disk does not end a run: the part of the work that failed begins again, as after a kill,
// once there is room.

// The pauses between looks for room grow from firstPause to longestPause.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = 10 * time.Second
)

// withRoom calls do until it returns another error than a full disk, or nil. Between the calls it
// waits for room. If ctx ends meanwhile, it returns its error.
func (r *Run) withRoom(ctx context.Context, do func() error) error {
	pause := firstPause
	for {
		err := do()
		if !durable.IsFull(err) {
			return err
		}
		first, _, _ := strings.Cut(err.Error(), "\n") // the same error may have occurred several times
		r.say(fmt.Sprintf("the disk is full: %s; the run continues when there is room", first))
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
			pause = min(2*pause, longestPause)
			if r.hasRoom() {
				break
			}
		}
	}
}

// say passes a message to Log.
func (r *Run) say(text string) {
	r.saying.Lock()
	defer r.saying.Unlock()
	if r.Log != nil {
		r.Log(text)
	}
}

// hasRoom reports whether a small file can be written.
func (r *Run) hasRoom() bool {
	const size = 256 << 10
	w, err := durable.Create(r.path("room"))
	if err != nil {
		return false
	}
	defer w.Abort()
	if _, err = w.Write(make([]byte, size)); err == nil {
		err = w.Sync()
	}
	return err == nil
}
