//go:build gpu && cgo && linux && amd64

package driver_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/cu"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda/driver"
)

// axpy is the argument of the kernel axpy, which computes y += a x for n numbers.
type axpy struct {
	y, x driver.Memory
	a    float32
	n    int32
}

// checkWork does what an evaluator does for a batch, with each kind of call at least once, and frees everything at its end.
func checkWork(w *driver.Worker) error {
	const numbers, size, shared = 1000, 4 * 1000, 64 << 10 // more than the default limit
	x, y, want := make([]float32, numbers), make([]float32, numbers), make([]float32, numbers)
	for i := range x {
		x[i], y[i] = float32(i), float32(7*i)
		want[i] = 7*float32(i) + 0.5*float32(i) + 2*float32(i)
	}
	return w.Do(func(c *driver.Context) (err error) {
		var undo []func() error
		defer func() {
			for _, f := range slices.Backward(undo) {
				err = errors.Join(err, f())
			}
		}()
		m, err := c.Load(ptx)
		if err != nil {
			return err
		}
		undo = append(undo, func() error { return c.Unload(m) })
		f, err := c.Function(m, "axpy")
		if err != nil {
			return err
		}
		if err := c.AllowShared(f, shared); err != nil {
			return err
		}
		if blocks, err := c.Resident(f, 128, shared); err != nil || blocks < 1 {
			return errors.Join(err, fmt.Errorf("%d blocks fit", blocks))
		}
		host, err := c.AllocHost(size)
		if err != nil {
			return err
		}
		undo = append(undo, func() error { return c.FreeHost(host) })
		s, err := c.NewStream()
		if err != nil {
			return err
		}
		undo = append(undo, func() error { return c.DestroyStream(s) })
		var memory [2]driver.Memory
		var events [2]driver.Event
		for i := range memory {
			if memory[i], err = c.Alloc(size); err != nil {
				return err
			}
			undo = append(undo, func() error { return c.Free(memory[i]) })
			if events[i], err = c.NewEvent(); err != nil {
				return err
			}
			undo = append(undo, func() error { return c.DestroyEvent(events[i]) })
		}
		if err := c.Upload(memory[1], encode(x)); err != nil {
			return err
		}
		copy(host.Bytes(), encode(y))
		for _, step := range []func() error{
			func() error { return c.CopyToDevice(memory[0], host, size, s) },
			func() error { return c.Record(events[0], s) },
			func() error {
				return c.Launch(f, (numbers+127)/128, 128, shared, s, unsafe.Pointer(&axpy{memory[0], memory[1], 0.5, numbers}))
			},
			func() error { return c.Record(events[1], s) },
			func() error { return c.WaitEvent(events[1]) },
			func() error { return c.CopyToHost(host, memory[0], size, s) },
			func() error { // in pinned memory, without a copy
				return c.Launch(f, (numbers+127)/128, 128, shared, s, unsafe.Pointer(&axpy{host.Device(), memory[1], 2, numbers}))
			},
			func() error {
				for {
					if idle, err := c.Idle(s); idle || err != nil {
						return err
					}
				}
			},
			func() error { return c.Wait(s) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		if ms, err := c.Elapsed(events[0], events[1]); err != nil || ms < 0 {
			return errors.Join(err, fmt.Errorf("%v ms elapsed", ms))
		}
		if _, err := binary.Decode(host.Bytes(), binary.LittleEndian, y); err != nil {
			return err
		}
		if diff := cmp.Diff(want, y); diff != "" {
			return fmt.Errorf("y + x/2 + 2x (-want +got):\n%s", diff)
		}
		return nil
	})
}

func encode(x []float32) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, x)
	return b
}

// startAgain tries to get a context after one in which a kernel faulted: at once, after some waits, and after a reset. It logs
// what each attempt gave. CUDA says that a process cannot go on after error 700, so that this error is no failure of the test:
// the result is then nil.
func startAgain(t *testing.T, d driver.Device) *driver.Worker {
	t.Helper()
	attempt := func(when string) *driver.Worker {
		w, err := d.Start()
		if err == nil {
			t.Logf("a new context %s works", when)
			return w
		}
		t.Logf("a new context %s: %v", when, err)
		if of, ok := errors.AsType[*driver.Error](err); !ok || of.Code != 700 {
			t.Errorf("a new context %s: %v, want none or the fault's error 700", when, err)
		}
		return nil
	}
	for _, wait := range []time.Duration{0, 10 * time.Millisecond, 100 * time.Millisecond, time.Second} {
		time.Sleep(wait)
		if w := attempt(fmt.Sprintf("after %v", wait)); w != nil {
			return w
		}
	}
	if w := attempt(fmt.Sprintf("after cuDevicePrimaryCtxReset (error: %v)", cu.Device(d.Index).ResetPrimaryCtx())); w != nil {
		return w
	}
	t.Log("NO new context: after error 700 this process cannot use the device again, only a new process can")
	return nil
}

// On a real device: the same work, and what comes after a kernel that faults.
func TestGPU(t *testing.T) {
	if os.Getenv("EVALD_GPU") != "1" {
		t.Skip("EVALD_GPU=1 runs this test alone, on the machine's GPUs")
	}
	found := gametest.Must(driver.Find())(t)
	for _, d := range found.Devices {
		if d.Emulated() {
			t.Fatalf("%v is the fake driver's, no GPU", d)
		}
		t.Logf("%v; driver %s, CUDA %d", d, found.Library, found.Version)
		w, err := d.Start()
		gametest.OK(t, err)
		if err := checkWork(w); err != nil {
			t.Error(err)
		}
		if err := w.Do(func(c *driver.Context) error {
			m, err := c.Load(ptx)
			f, err2 := c.Function(m, "overrun")
			s, err3 := c.NewStream()
			if err := errors.Join(err, err2, err3); err != nil {
				return err
			}
			nowhere := driver.Memory(1 << 20)
			return errors.Join(c.Launch(f, 1, 1, 0, s, unsafe.Pointer(&nowhere)), c.Wait(s))
		}); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_ILLEGAL_ADDRESS (700)") {
			t.Errorf("a kernel that faults: %v", err)
		}
		if err := checkWork(w); err == nil {
			t.Error("the context works after a fault")
		}
		t.Logf("Close after the fault: %v", w.Close())
		if w = startAgain(t, d); w == nil {
			continue
		}
		if err := errors.Join(checkWork(w), w.Close()); err != nil {
			t.Errorf("work after the fault: %v", err)
		}
	}
}
