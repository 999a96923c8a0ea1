//go:build gpu && cgo && linux && amd64

package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/kernels/cuda"
	"github.com/evald/evald/kernels/cuda/driver"
)

// slotsADevice is the number of launches that may be with a device at once: some are computed or wait for it, and some are
// being filled or read by callers. Networks of tables take 1 ns for a position that a caller fills and reads in 50 to 100, so there is a
// slot for each processor: with four, callers on 16 processors got 38 M positions/s from an H200, as many as on four.
var slotsADevice = min(max(4, runtime.GOMAXPROCS(0)), 16)

// session is one life of a device: a context, until it is closed or something in it fails. Only its thread calls the driver.
type session struct {
	device *device
	c      *driver.Context

	free      chan *slot // for callers; every channel of slots has room for all slots
	submitted chan *slot
	orders    chan func() error // to run on the session's thread between launches; an error ends the session
	broken    chan error        // an error that a caller found; the first counts
	dead      chan struct{}     // closed when the session takes no more slots, see over

	ends   sync.Once
	reason error // why it ended; read it after dead

	tester  *slot     // for the self-test alone
	flying  []*slot   // launched, the oldest first
	busy    time.Time // since when something flies, as far as it is not counted yet
	modules map[string]driver.Module
	kernels map[string]loadedKernel
	weights map[cuda.Family]driver.Memory
	tested  map[string]bool  // kernels that have passed their self-test
	proofs  map[proof][]byte // the first answers to the probes
}

// proof is what must be answered with the same bits by all kernels of a family.
type proof struct {
	cuda.Family
	want *eval.Batch
}

type loadedKernel struct {
	driver.Function
	resident int // blocks that run on a multiprocessor at once
}

func newSession(d *device, c *driver.Context) *session {
	return &session{
		device: d, c: c,
		free: make(chan *slot, slotsADevice), submitted: make(chan *slot, slotsADevice),
		orders: make(chan func() error), broken: make(chan error, 1), dead: make(chan struct{}),
		modules: map[string]driver.Module{}, kernels: map[string]loadedKernel{}, weights: map[cuda.Family]driver.Memory{},
		tested: map[string]bool{}, proofs: map[proof][]byte{},
	}
}

// open allocates what the session needs, and tests the network that it serves.
func (s *session) open(n *served) (err error) {
	defer fault.Catch(&err)
	slots := make([]*slot, slotsADevice+1)
	for i := range slots {
		var err error
		if slots[i], err = s.newSlot(); err != nil {
			return err
		}
	}
	s.tester, slots = slots[slotsADevice], slots[:slotsADevice]
	p, err := n.planned(testBoard, targetOf(s.device.info))
	if err != nil {
		return err
	}
	for i, v := range p.variants { // those for small batches too, so that none is late
		if slices.ContainsFunc(p.sizes, func(x size) bool { return x.plan == i }) {
			if err := s.load(v); err != nil {
				return err
			}
		}
	}
	for _, slot := range slots {
		s.free <- slot
	}
	return nil
}

func (s *session) newSlot() (*slot, error) {
	x := &slot{session: s, job: new(job), done: make(chan error, 1)}
	var err [5]error
	x.stream, err[0] = s.c.NewStream()
	x.hostIn, err[1] = s.c.AllocHost(slotPositions)
	x.hostOut, err[2] = s.c.AllocHost(slotAnswers)
	x.in, err[3] = s.c.Alloc(slotPositions)
	x.out, err[4] = s.c.Alloc(slotAnswers)
	return x, cmp.Or(err[:]...)
}

// patience is how long the thread polls for the end of a launch, so that it can start other launches at once. After that it
// blocks: the delay for others is then small compared with the launch. It keeps its processor meanwhile: to give it away and
// get it back takes a thread of its own tens of microseconds, which is most of a short launch.
const patience = time.Millisecond

// loop serves until quit, which is no error, or until something fails or panics.
func (s *session) loop() (err error) {
	defer fault.Catch(&err)
	for {
		var err error
		if len(s.flying) > 0 {
			err = s.oldest()
		} else {
			select {
			case <-s.device.quit:
				return nil
			case err = <-s.broken:
			case f := <-s.orders:
				err = f()
			case x := <-s.submitted:
				err = s.launch(x)
			}
		}
		if err != nil {
			return err
		}
	}
}

// oldest starts new launches until the oldest one is done, and then ends that.
func (s *session) oldest() error {
	x := s.flying[0]
	for since := time.Now(); len(s.flying) < slotsADevice && time.Since(since) < patience; {
		if s.device.yields {
			runtime.Gosched()
		}
		var err error
		select {
		case err = <-s.broken:
		case f := <-s.orders:
			err = f()
		case next := <-s.submitted:
			err = s.launch(next)
		default:
		}
		if err != nil {
			return err
		}
		if idle, err := s.c.Idle(x.stream); err != nil {
			return err
		} else if idle {
			s.land(x)
			return nil
		}
	}
	if err := s.c.Wait(x.stream); err != nil {
		return err
	}
	s.land(x)
	return nil
}

func (s *session) land(x *slot) {
	s.flying = append(s.flying[:0], s.flying[1:]...)
	now, d := time.Now(), s.device
	d.mu.Lock()
	d.count.Rows += uint64(x.n)
	d.count.Launches++
	d.count.Busy += now.Sub(s.busy)
	d.mu.Unlock()
	s.busy = now
	x.end(nil)
}

// order runs a function on the session's thread, and returns when it is done or the session has ended.
func (s *session) order(f func() error) error {
	done := make(chan struct{})
	select {
	case s.orders <- func() error {
		err := f()
		if err == nil {
			close(done)
		}
		return err
	}:
		select {
		case <-done:
			return nil
		case <-s.dead:
		}
	case <-s.dead:
	}
	return s.reason
}

// launch sends a slot to the device. If the driver fails, launch returns the error and the session ends; the slot is then in
// flying and gets that error. If the kernel fails its self-test, only the callers that need it get the error.
func (s *session) launch(x *slot) error {
	s.flying = append(s.flying, x) // first, so that stop finds it after a panic
	v := x.plan.variants[x.plan.index(x.n)]
	if err := s.device.refused[v.Kernel.Name]; err != nil {
		s.flying = s.flying[:len(s.flying)-1]
		x.end(err)
		return nil
	}
	if len(s.flying) == 1 {
		s.busy = time.Now()
	}
	err := s.load(v)
	if errors.Is(err, errSelfTest) {
		s.flying = s.flying[:len(s.flying)-1]
		s.device.refused[v.Kernel.Name] = err
		x.end(err)
		return nil
	}
	if err != nil {
		return err
	}
	return s.start(x, v.plan, x.n)
}

// directBytes is the size of positions and answers up to which a kernel reads and writes them in pinned memory itself: 264
// positions of 7x6, two for each multiprocessor of an H100. With two copies a launch took 4 to 6 µs longer on an H100
// (BenchmarkGPUSmallLaunches). It is a variable for tests.
var directBytes = 14 << 10

// direct reports whether a kernel should use pinned memory itself for n positions.
func (p plan) direct(n int) bool { return n*(p.PositionBytes()+p.RowBytes()) <= directBytes }

// start queues the kernel for n positions in the slot's stream, between copies if it does not use pinned memory itself. Kernel
// and weights must be loaded.
func (s *session) start(x *slot, p plan, n int) error {
	if in, out := x.hostIn.Device(), x.hostOut.Device(); in != 0 && out != 0 && p.direct(n) {
		return s.kernel(x, p, n, in, out)
	}
	if err := s.c.CopyToDevice(x.in, x.hostIn, n*p.PositionBytes(), x.stream); err != nil {
		return err
	}
	if err := s.kernel(x, p, n, x.in, x.out); err != nil {
		return err
	}
	return s.c.CopyToHost(x.hostOut, x.out, n*p.RowBytes(), x.stream)
}

// kernel queues the kernel for n positions in the slot's stream, which reads them at in and writes answers at out.
func (s *session) kernel(x *slot, p plan, n int, in, out driver.Memory) error {
	k, processors := s.kernels[p.Kernel.Name], s.device.info.Multiprocessors
	*x.job = p.Job(n, processors)
	blocks := p.Blocks(*x.job, max(1, processors*k.resident/p.Kernel.Cluster))
	if need := p.Scratch * blocks; need > x.scratchBytes {
		if err := s.moreScratch(x, need); err != nil {
			return err
		}
	}
	x.job.Weights, x.job.Positions, x.job.Out, x.job.Scratch = uint64(s.weights[p.Kernel.Family()]), uint64(in), uint64(out), uint64(x.scratch)
	return s.c.Launch(k.Function, blocks, p.Kernel.Threads, p.Kernel.Shared, x.stream, unsafe.Pointer(x.job))
}

func (s *session) moreScratch(x *slot, n int) (err error) {
	if x.scratchBytes > 0 {
		err = s.c.Free(x.scratch)
	}
	x.scratchBytes = 0
	if err != nil {
		return err
	}
	if x.scratch, err = s.c.Alloc(n); err == nil {
		x.scratchBytes = n
	}
	return err
}

// load copies a kernel and its weights to the device and tests them, unless that was done before. Weights that no kernel has
// passed a test with are freed.
func (s *session) load(v *variant) error {
	if s.tested[v.Kernel.Name] {
		return nil
	}
	if err := s.loadKernel(v.Kernel); err != nil {
		return err
	}
	family := v.Kernel.Family()
	_, had := s.weights[family]
	if !had {
		m, err := s.c.Alloc(len(v.weights))
		if err != nil {
			return err
		}
		s.weights[family] = m
		if err := s.c.Upload(m, v.weights); err != nil {
			return err
		}
	}
	err := s.selfTest(v)
	if err != nil && !had {
		err = errors.Join(err, s.c.Free(s.weights[family]))
		delete(s.weights, family)
	}
	s.tested[v.Kernel.Name] = err == nil
	return err
}

func (s *session) loadKernel(k cuda.Kernel) error {
	if _, ok := s.kernels[k.Name]; ok {
		return nil
	}
	m, err := s.module(k)
	if err != nil {
		return fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	f, err := s.c.Function(m, k.Name)
	if err != nil {
		return err
	}
	err = s.c.AllowShared(f, k.Shared)
	resident := 0
	if err == nil {
		resident, err = s.c.Resident(f, k.Threads, k.Shared)
	}
	if err != nil {
		return fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	s.kernels[k.Name] = loadedKernel{f, max(1, resident)}
	return nil
}

// module loads a kernel's machine code, or if there is none that the driver can use, compiles its PTX.
func (s *session) module(k cuda.Kernel) (m driver.Module, err error) {
	m, ok := s.modules[k.Module]
	if cubin := k.Cubin(s.device.info.Major, s.device.info.Minor); !ok && cubin != nil {
		m, ok, err = s.c.LoadMachineCode(cubin)
	}
	if !ok && err == nil {
		m, err = s.c.Load(k.PTX)
	}
	if err == nil {
		s.modules[k.Module] = m
	}
	return m, err
}

// over hides the session from callers. err is the reason, or nil after quit; only the first call counts. It returns the
// error for callers.
func (s *session) over(err error) error {
	s.ends.Do(func() {
		if s.reason = errClosed; err != nil {
			s.reason = s.device.failed(err, true) // first, so that who finds no session also finds the fault counted
		}
		s.device.e.change(func(live []*session) []*session {
			return slices.DeleteFunc(live, func(x *session) bool { return x == s })
		})
		close(s.dead)
	})
	return s.reason
}

// stop ends all launches with an error and collects the slots, so that no launch writes to memory that will be freed.
func (s *session) stop(err error) {
	for _, x := range s.flying {
		x.end(err)
	}
	s.flying = nil
	for range slotsADevice {
		for gathered := false; !gathered; {
			select {
			case <-s.free:
				gathered = true
			case x := <-s.submitted:
				x.end(err)
			}
		}
	}
}
