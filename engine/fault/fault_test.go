package fault_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/evald/evald/engine/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outOfRange panics as a mistake does.
func outOfRange(numbers []int) int { return numbers[len(numbers)] }

func caught(f func()) (err error) {
	defer fault.Catch(&err)
	f()
	return nil
}

// An Error has the panic's text and the functions that panicked, and its stack is told once.
func TestCatch(t *testing.T) {
	err := fmt.Errorf("evaluate: %w", caught(func() { outOfRange(nil) }))
	e := fault.In(err)
	if e == nil {
		t.Fatalf("no fault in %v", err)
	}
	for _, want := range []string{"evald has a fault: runtime error: index out of range [0] with length 0", "engine/fault_test.outOfRange fault_test.go:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %q, want %q in it", err, want)
		}
	}
	var told strings.Builder
	e.Tell(&told, "v1.2.3")
	e.Tell(&told, "v1.2.3")
	if text := told.String(); strings.Count(text, "evald v1.2.3 has a fault") != 1 || !strings.Contains(text, "outOfRange") {
		t.Errorf("told %q", text)
	}
	if err := caught(func() {}); err != nil || fault.In(err) != nil || fault.In(errors.New("full disk")) != nil {
		t.Errorf("without a panic: %v", err)
	}
}

// A panic that is repeated in another goroutine keeps the stack of the first. One with the error of
// an ended context is no interrupt.
func TestRepeated(t *testing.T) {
	first := caught(func() { outOfRange(nil) })
	again := caught(func() { panic(fmt.Errorf("solver: %w", first)) })
	if again != first {
		t.Errorf("again %v, want %v", again, first)
	}
	if err := caught(func() { panic(context.Canceled) }); errors.Is(err, context.Canceled) {
		t.Errorf("%v counts as an interrupt", err)
	}
}

// Wait waits for all goroutines, and then repeats a panic.
func TestGroup(t *testing.T) {
	var g fault.Group
	done := make([]bool, 8)
	for i := range done {
		g.Go(func() {
			done[i] = true
			outOfRange(nil)
		})
	}
	g.Run(func() { panic("also here") })
	if err := caught(g.Wait); fault.In(err) == nil {
		t.Errorf("Wait: %v", err)
	}
	for i, done := range done {
		if !done {
			t.Errorf("goroutine %d has not ended", i)
		}
	}
}
