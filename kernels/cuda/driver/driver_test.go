//go:build gpu && cgo && linux && amd64

package driver_test

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/kernels/cuda/driver/fake"
)

//go:embed testdata/kernels.ptx
var ptx string

var device *fake.Driver

// TestMain runs the tests on the fake driver. With EVALD_GPU=1 it runs TestGPU alone, on the machine's driver. As a child
// process of a test it only prints what Find returns.
func TestMain(m *testing.M) {
	if os.Getenv("EVALD_TEST_FIND") != "" {
		dir := os.Getenv("EVALD_TEST_FILES") // has the driver's library and device files
		if dir != "" {
			os.Unsetenv("EVALD_CUDA_DRIVER")
			driver.Folders, driver.Files = []string{dir}, filepath.Join(dir, "nvidia[0-9]*")
		}
		found, err := driver.Find()
		if os.Getenv("EVALD_TEST_FIND") == "uuid" && err == nil {
			for _, d := range found.Devices {
				fmt.Println(d.UUID)
			}
			return
		}
		fmt.Println(err)
		if dir != "" && errors.Is(err, driver.ErrNone) {
			fmt.Println("is ErrNone")
		}
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv("EVALD_GPU") == "1" {
		flag.Parse()
		if err := flag.Set("test.run", "^TestGPU$"); err != nil {
			panic(err)
		}
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "evald-cuda-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	kernels := filepath.Join(dir, "kernels.so")
	device, err = fake.Install(dir)
	err = errors.Join(err, fake.Compile(kernels, []string{"testdata/kernels.c"}, "fake"), fake.UseKernels(kernels))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// start returns a worker on the fake device, with all counts at zero.
func start(t testing.TB) *driver.Worker {
	t.Helper()
	found := gametest.Must(driver.Find())(t)
	device.Reset()
	w := gametest.Must(found.Devices[0].Start())(t)
	t.Cleanup(func() { w.Close() })
	return w
}

func TestFind(t *testing.T) {
	found := gametest.Must(driver.Find())(t)
	want := &driver.Driver{
		Library: os.Getenv("EVALD_CUDA_DRIVER"), Version: 12040,
		Devices: []driver.Device{{UUID: "GPU-00010203-0405-0607-0809-0a0b0c0d0e00", PCI: "ffff:ff:00.0", Name: "Fake GPU 0", Major: 9, Memory: 1 << 30, Multiprocessors: 4, Shared: 232448, Node: -1}},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// find is what a child process prints: the error of Find, and its errors.
func find(t *testing.T, env ...string) (found, log string) {
	t.Helper()
	program := exec.Command(os.Args[0])
	program.Env = append(append(os.Environ(), "EVALD_TEST_FIND=1", "GORACE=atexit_sleep_ms=0"), env...)
	var stdout, stderr strings.Builder
	program.Stdout, program.Stderr = &stdout, &stderr
	if err := program.Run(); err != nil {
		t.Errorf("%v: %v\n%s", env, err, stderr.String())
	}
	return strings.TrimSpace(stdout.String()), stderr.String()
}

// A MIG slice is named by its own UUID, not by its GPU's, and a driver without the newer function gives the GPU's.
func TestUUIDs(t *testing.T) {
	const ends = "010203-0405-0607-0809-0a0b0c0d0e"
	for _, c := range []struct{ env, want string }{
		{"EVALD_FAKE_DEVICES=2", "GPU-00" + ends + "00\nGPU-00" + ends + "01"},
		{"EVALD_FAKE_MIG=1", "MIG-7f" + ends + "00"},
		{"EVALD_FAKE_FAULTS=cuDeviceGetUuid_v2:1:1:801", "GPU-00" + ends + "00"}, // CUDA_ERROR_NOT_SUPPORTED
		{"EVALD_FAKE_FAULTS=cuDeviceGetUuid_v2:1:1:101", "driver " + os.Getenv("EVALD_CUDA_DRIVER") + ": device 0: cuDeviceGetUuid_v2: CUDA_ERROR_INVALID_DEVICE (101): invalid device ordinal"},
	} {
		if found, _ := find(t, "EVALD_TEST_FIND=uuid", c.env); found != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.env, found, c.want)
		}
	}
}

// The error distinguishes all reasons why there is no device.
func TestReasons(t *testing.T) {
	fakeDriver := os.Getenv("EVALD_CUDA_DRIVER")
	garbage := filepath.Join(t.TempDir(), "libcuda.so")
	gametest.OK(t, os.WriteFile(garbage, []byte("no library"), 0o644))
	for _, c := range []struct{ env, want string }{
		{"EVALD_CUDA_DRIVER=/no/such.so", "no CUDA driver library: /no/such.so: cannot open shared object file: No such file or directory"},
		{"EVALD_CUDA_DRIVER=" + garbage, "no CUDA driver library: " + garbage + ": file too short"},
		{"EVALD_CUDA_DRIVER=" + os.Getenv("EVALD_FAKE_KERNELS"), "no CUDA driver library: " + os.Getenv("EVALD_FAKE_KERNELS") + ": undefined symbol: cuInit"},
		{"EVALD_FAKE_FAULTS=cuInit:1:1:100", "driver " + fakeDriver + ": cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"},
		{"EVALD_FAKE_FAULTS=cuInit:1:1:34", "driver " + fakeDriver + ": cuInit: error (34): no text"},
		{"EVALD_FAKE_DEVICES=0", "driver " + fakeDriver + ": 0 devices"},
		{"EVALD_FAKE_FAULTS=cuDeviceGetCount:1:-1:3", "driver " + fakeDriver + ": cuDeviceGetCount: CUDA_ERROR_NOT_INITIALIZED (3): initialization error"},
		{"EVALD_FAKE_FAULTS=cuDeviceGetName:1:1:101", "driver " + fakeDriver + ": device 0: cuDeviceGetName: CUDA_ERROR_INVALID_DEVICE (101): invalid device ordinal"},
		{"EVALD_FAKE_FAULTS=cuDeviceGetAttribute:4:1:1", "driver " + fakeDriver + ": device 0: cuDeviceGetAttribute: CUDA_ERROR_INVALID_VALUE (1): invalid argument"},
	} {
		if found, _ := find(t, c.env); found != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.env, found, c.want)
		}
	}
}

// A driver without a device is as good as no driver, unless the machine was given a GPU.
func TestNoDevice(t *testing.T) {
	for _, c := range []struct {
		file, env string
		none      bool
	}{
		{"nvidiactl", "EVALD_X=", true},
		{"nvidia0", "EVALD_X=", false},
		{"nvidia0", "CUDA_VISIBLE_DEVICES=", true},
	} {
		dir := t.TempDir()
		gametest.OK(t, os.Symlink(os.Getenv("EVALD_CUDA_DRIVER"), filepath.Join(dir, "libcuda.so.1")))
		gametest.OK(t, os.WriteFile(filepath.Join(dir, c.file), nil, 0o600))
		found, _ := find(t, "EVALD_TEST_FILES="+dir, "EVALD_FAKE_FAULTS=cuInit:1:1:100", c.env)
		want := "driver " + dir + "/libcuda.so.1: cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"
		if c.none {
			want += "\nis ErrNone"
		} else {
			want += ", although there is " + dir + "/nvidia0"
		}
		if found != want {
			t.Errorf("%s, %s:\n got %s\nwant %s", c.file, c.env, found, want)
		}
	}
}

// A driver that was found by its path finds its compiler of PTX by name, since that lies beside it.
func TestCompilerBesideDriver(t *testing.T) {
	const name = "libnvidia-ptxjitcompiler.so.1"
	folder := t.TempDir()
	source, path := filepath.Join(folder, "compiler.c"), filepath.Join(folder, "libcuda.so.1")
	if err := os.WriteFile(source, []byte("int compiler = 1;"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-shared", "-Wl,-soname,"+name, "-o", filepath.Join(folder, name), source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	gametest.OK(t, os.Symlink(os.Getenv("EVALD_CUDA_DRIVER"), path))
	for _, c := range []struct{ fault, want string }{
		{"cuInit:9:1:1", "<nil>"},
		{"cuInit:1:1:100", "driver " + path + ": cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"},
	} {
		found, log := find(t, "LD_DEBUG=files", "EVALD_CUDA_DRIVER="+path, "EVALD_FAKE_FAULTS="+c.fault)
		if found != c.want {
			t.Errorf("%q, want %q", found, c.want)
		}
		if at := "calling init: " + filepath.Join(folder, name); !strings.Contains(log, at) {
			t.Errorf("the loader does not say %q:\n%s", at, log)
		}
	}
}

// The tests of a real device (TestGPU) load the same PTX, on the oldest device that evald uses too.
func TestWorkOnTheOldestDevice(t *testing.T) {
	for capability, want := range map[string]string{"80": "", "75": "cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed: fake : SM version"} {
		t.Setenv("EVALD_FAKE_CAPABILITY", capability)
		if err := checkWork(start(t)); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("on sm_%s: %v, want %q", capability, err, want)
		}
	}
}

// Each call fails in turn, each time it is made: the error names it, and nothing is left allocated. A failure on the device
// costs the context; a new context works.
func TestEveryCallFails(t *testing.T) {
	defer goleak.VerifyNone(t)
	found, err := driver.Find()
	if err != nil {
		t.Fatal(err)
	}
	device.Reset()
	whole := func() (err error) {
		w, err := found.Devices[0].Start()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.Close()) }()
		return checkWork(w)
	}
	if err := whole(); err != nil || device.Count() != (fake.Count{}) {
		t.Fatalf("without a fault: %v, %+v", err, device.Count())
	}
	calls := device.Calls()
	if len(calls) != 26 || calls["cuStreamSynchronize"] != 2 { // Wait's own, and that of Upload for stream 0
		t.Fatalf("%d kinds of calls, not 26: %v", len(calls), calls)
	}
	for name, times := range calls {
		for at := 1; at <= times; at++ {
			for _, code := range []int{fake.OutOfMemory, fake.IllegalAddress, fake.LaunchFailed} {
				device.Reset()
				device.Fail(name, at, 1, code)
				err := whole()
				var e *driver.Error
				call, _, _ := strings.Cut(name, "_")
				if name == "kernel" {
					call = []string{"cuEventSynchronize", "cuStreamQuery"}[at-1] // who waits for it
				}
				if !errors.As(err, &e) || e.Code != code || e.Call != call {
					t.Errorf("call %d of %s fails with %d: %v", at, name, code, err)
				}
				count := device.Count()
				if code == fake.OutOfMemory && name != "kernel" && !strings.Contains(name, "Free") && !strings.Contains(name, "Destroy") && !strings.Contains(name, "Unload") && count.Swept != 0 {
					t.Errorf("call %d of %s fails with %d: %d things were left to the context's end", at, name, code, count.Swept)
				}
				count.Swept = 0
				if diff := cmp.Diff(fake.Count{}, count); diff != "" {
					t.Errorf("call %d of %s fails with %d, lives (-want +got):\n%s", at, name, code, diff)
				}
			}
		}
	}
	device.Reset()
	if err := whole(); err != nil {
		t.Errorf("after all faults: %v", err)
	}
}

// After a failure on the device every call returns the same error until there is a new context.
func TestLostDevice(t *testing.T) {
	w := start(t)
	device.Fail("kernel", 1, 1, fake.IllegalAddress)
	for i := range 3 {
		if err := checkWork(w); !errors.As(err, new(*driver.Error)) || !strings.Contains(err.Error(), "CUDA_ERROR_ILLEGAL_ADDRESS (700)") {
			t.Errorf("try %d: %v", i, err)
		}
	}
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), "cuCtxDestroy: CUDA_ERROR_ILLEGAL_ADDRESS") {
		t.Errorf("Close: %v", err)
	}
	if err := checkWork(start(t)); err != nil {
		t.Errorf("with a new context: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	w := start(t)
	_ = w.Do(func(c *driver.Context) error {
		s, _ := c.NewStream()
		m, _ := c.Load(ptx)
		f, _ := c.Function(m, "axpy")
		over, _ := c.Function(m, "overrun")
		pairs, _ := c.Load(strings.Replace(ptx, ")\n{", ")\n.explicitcluster\n.reqnctapercluster 2, 1, 1\n{", 1)) // of axpy, the first
		inPairs, _ := c.Function(pairs, "axpy")
		memory, _ := c.Alloc(16)
		host, _ := c.AllocHost(16)
		launch := func(f driver.Function, blocks, threads, shared int) error {
			return c.Launch(f, blocks, threads, shared, s, unsafe.Pointer(&axpy{y: memory}))
		}
		_, noPTX := c.Load("no PTX")
		_, noKernel := c.Function(m, "axp")
		_, noHost := c.Function(m, "no_host_function")
		_, tooMuch := c.Alloc(2 << 30)
		_, nothing := c.Alloc(0)
		e, _ := c.NewEvent()
		for shared, want := range map[int]int{0: 16, 48 << 10: 4, 232448: 1} { // of 228 KiB, with 1 KiB per block reserved
			if n, err := c.Resident(f, 128, shared); err != nil || n != want {
				t.Errorf("%d blocks of %d bytes fit (%v), want %d", n, shared, err, want)
			}
		}
		for _, refusal := range []struct {
			err  error
			says string
		}{
			{noPTX, "cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed: fake : Missing .version directive"},
			{noKernel, "kernel axp: cuModuleGetFunction: CUDA_ERROR_NOT_FOUND (500): named symbol not found"},
			{noHost, "kernel no_host_function: cuModuleGetFunction: CUDA_ERROR_NO_BINARY_FOR_GPU (209)"},
			{tooMuch, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"},
			{nothing, "cuMemAlloc: CUDA_ERROR_INVALID_VALUE (1): invalid argument"},
			{launch(f, 1, 1025, 0), "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE"},
			{launch(f, 0, 1, 0), "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE"},
			{launch(f, 1, 1, 48<<10+1), "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE"},
			{launch(inPairs, 3, 1, 0), "cuLaunchKernel: CUDA_ERROR_INVALID_CLUSTER_SIZE (912): cluster misconfiguration"},
			{c.AllowShared(f, 1<<20), "cuFuncSetAttribute: CUDA_ERROR_INVALID_VALUE"},
			{c.Upload(memory, make([]byte, 17)), "cuMemcpyHtoD: CUDA_ERROR_INVALID_VALUE"},
			{c.CopyToDevice(memory+8, host, 9, s), "cuMemcpyHtoDAsync: CUDA_ERROR_INVALID_VALUE"},
			{c.Free(memory + 1), "cuMemFree: CUDA_ERROR_INVALID_VALUE"},
			{c.Record(e, driver.Stream{}), "cuEventRecord: CUDA_ERROR_INVALID_HANDLE (400): invalid resource handle"},
		} {
			if refusal.err == nil || !strings.HasPrefix(refusal.err.Error(), refusal.says) {
				t.Errorf("%v\nwant %s", refusal.err, refusal.says)
			}
		}
		if err := errors.Join(launch(inPairs, 2, 1, 0), c.Wait(s), c.Unload(pairs)); err != nil {
			t.Error(err)
		}
		if err := errors.Join(launch(over, 1, 1, 0), c.Wait(s), c.Free(memory)); err != nil {
			t.Error(err)
		}
		return nil
	})
	// The module, the stream, the event and the pinned memory are left for Close to free.
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(fake.Count{Swept: 4, Overruns: 1}, device.Count()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Calls from many goroutines run on the worker's thread, one at a time.
func TestManyCallers(t *testing.T) {
	defer goleak.VerifyNone(t)
	w := start(t)
	running, most := 0, 0
	var wait sync.WaitGroup
	for range 50 {
		wait.Go(func() {
			if err := w.Do(func(c *driver.Context) error {
				running++
				most = max(most, running)
				defer func() { running-- }()
				m, err := c.Alloc(1)
				return errors.Join(err, c.Free(m))
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if most != 1 {
		t.Errorf("%d jobs ran at once", most)
	}
	for range 2 {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := w.Do(func(*driver.Context) error { t.Error("ran after Close"); return nil }); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("Do after Close: %v", err)
	}
}

// Our cuda.h agrees with an official one in constants, layouts, and the parameters of functions.
func TestHeader(t *testing.T) {
	official := officialHeader(t)
	header := gametest.Must(os.ReadFile("include/cuda.h"))(t)
	dir := t.TempDir()
	var constants strings.Builder
	names := regexp.MustCompile(`\b(CU\w+)(?: = |\s0x)`).FindAllSubmatch(header, -1)
	if len(names) < 250 {
		t.Fatalf("only %d constants in include/cuda.h", len(names))
	}
	for _, name := range names {
		if string(name[1]) == "CU_CTX_FLAGS_MASK" { // it differs between versions
			continue
		}
		fmt.Fprintf(&constants, "C(%s)\n", name[1])
	}
	gametest.OK(t, os.WriteFile(filepath.Join(dir, "constants.h"), []byte(constants.String()), 0o644))
	said := func(program string, folders ...string) []string {
		program = filepath.Join(dir, program)
		args := []string{"-w", "-o", program, "testdata/layout.c", "-I", dir}
		for _, f := range folders {
			args = append(args, "-I", f)
		}
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("gcc %v: %v\n%s", args, err, out)
		}
		out := gametest.Must(exec.Command(program).Output())(t)
		return strings.Split(string(out), "\n")
	}
	if diff := cmp.Diff(said("official", official, "include"), said("ours", "include")); diff != "" {
		t.Errorf("%s (-official +ours):\n%s", official, diff)
	}
}

// officialHeader returns the folder of an official cuda.h: EVALD_CUDA_INCLUDE, or that of the package in
// .ci/requirements.txt.
func officialHeader(t *testing.T) string {
	if dir := os.Getenv("EVALD_CUDA_INCLUDE"); dir != "" {
		return dir
	}
	python := os.Getenv("EVALD_PYTHON")
	if python == "" {
		t.Skip("no official cuda.h: set EVALD_CUDA_INCLUDE to its folder, or EVALD_PYTHON to a Python that has .ci/requirements.txt")
	}
	out, err := exec.Command(python, "-c", "import nvidia.cuda_runtime as p; print(list(p.__path__)[0])").Output()
	if err != nil {
		t.Skipf("no official cuda.h: %s lacks nvidia-cuda-runtime-cu11 (.ci/requirements.txt)", python)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "include")
}
