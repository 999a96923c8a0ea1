//go:build gpu && cgo && linux && amd64

package driver_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/kernels/cuda/driver"
)

// work does what an evaluator does for a batch, with each kind of call at least once, and frees everything at its end. It
// computes y += a x in a stream, for n numbers, with the copies in another stream.
func work(w *driver.Worker, a float32, x, y []float32) error {
	return w.Do(func(c *driver.Context) (err error) {
		var undo []func() error
		defer func() {
			for i := len(undo); i > 0; i-- {
				err = errors.Join(err, undo[i-1]())
			}
		}()
		const shared = 64 << 10 // more than the default limit
		n := 4 * len(x)
		m, err := c.Load(ptx)
		if err != nil {
			return err
		}
		undo = append(undo, func() error { return c.Unload(m) })
		f, err := c.Function(m, "axpy")
		if err != nil {
			return err
		}
		inStruct, err := c.Function(m, "axpy_struct")
		if err != nil {
			return err
		}
		if err := c.AllowShared(f, shared); err != nil {
			return err
		}
		if blocks, err := c.Resident(f, 128, shared); err != nil || blocks < 1 {
			return errors.Join(err, fmt.Errorf("%d blocks fit", blocks))
		}
		host, err := c.AllocHost(n)
		if err != nil {
			return err
		}
		undo = append(undo, func() error { return c.FreeHost(host) })
		var memory [2]driver.Memory
		for i := range memory {
			if memory[i], err = c.Alloc(n); err != nil {
				return err
			}
			undo = append(undo, func() error { return c.Free(memory[i]) })
		}
		var streams [2]driver.Stream
		var events [2]driver.Event
		for i := range streams {
			if streams[i], err = c.NewStream(); err != nil {
				return err
			}
			undo = append(undo, func() error { return c.DestroyStream(streams[i]) })
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
			func() error { return c.CopyToDevice(memory[0], host, n, streams[0]) },
			func() error { return c.Record(events[0], streams[0]) },
			func() error { return c.After(streams[1], events[0]) },
			func() error { // adds half of a x
				return c.Launch(f, [3]int{(len(x) + 127) / 128, 1, 1}, [3]int{128, 1, 1}, shared, streams[1],
					uint64(memory[0]), uint64(memory[1]), uint64(math.Float32bits(a/2)), uint64(len(x)))
			},
			func() error { // adds the other half
				return c.LaunchStruct(inStruct, (len(x)+127)/128, 128, 0, streams[1],
					unsafe.Pointer(&axpy{memory[0], memory[1], a / 2, int32(len(x))}))
			},
			func() error { return c.Record(events[1], streams[1]) },
			func() error { return c.WaitEvent(events[1]) },
			func() error { return c.CopyToHost(host, memory[0], n, streams[1]) },
			func() error {
				for {
					if idle, err := c.Idle(streams[1]); idle || err != nil {
						return err
					}
				}
			},
			func() error { return c.Wait(streams[1]) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		if ms, err := c.Elapsed(events[0], events[1]); err != nil || ms < 0 {
			return errors.Join(err, fmt.Errorf("%v ms elapsed", ms))
		}
		for i := range y {
			y[i] = math.Float32frombits(binary.LittleEndian.Uint32(host.Bytes()[4*i:]))
		}
		return nil
	})
}

// axpy is the argument of axpy_struct.
type axpy struct {
	y, x driver.Memory
	a    float32
	n    int32
}

func encode(x []float32) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, x)
	return b
}

func checkWork(w *driver.Worker) error {
	x, y, want := make([]float32, 1000), make([]float32, 1000), make([]float32, 1000)
	for i := range x {
		x[i], y[i] = float32(i), float32(7*i)
		want[i] = 7*float32(i) + 0.5*float32(i)
	}
	if err := work(w, 0.5, x, y); err != nil {
		return err
	}
	if diff := cmp.Diff(want, y); diff != "" {
		return fmt.Errorf("y + x/2 (-want +got):\n%s", diff)
	}
	return nil
}

// On a real device: the same work, and a new context after a kernel that faults.
func TestGPU(t *testing.T) {
	if os.Getenv("EVALD_GPU") != "1" {
		t.Skip("EVALD_GPU=1 runs this test alone, on the machine's GPUs")
	}
	found, err := driver.Find()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found.Devices {
		if d.Emulated() {
			t.Fatalf("%v is the fake driver's, no GPU", d)
		}
		t.Logf("%v; driver %s, CUDA %d", d, found.Library, found.Version)
		w, err := d.Start()
		if err != nil {
			t.Fatal(err)
		}
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
			return errors.Join(c.Launch(f, [3]int{1, 1, 1}, [3]int{1, 1, 1}, 0, s, 1<<20), c.Wait(s))
		}); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_ILLEGAL_ADDRESS (700)") {
			t.Errorf("a kernel that faults: %v", err)
		}
		if err := checkWork(w); err == nil {
			t.Error("the context works after a fault")
		}
		t.Logf("Close after the fault: %v", w.Close())
		if w, err = d.Start(); err != nil {
			t.Fatalf("a context after the fault: %v", err)
		}
		if err := errors.Join(checkWork(w), w.Close()); err != nil {
			t.Errorf("work after the fault: %v", err)
		}
	}
}
