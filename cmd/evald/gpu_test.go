//go:build gpu && cgo && linux && amd64

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/evald/evald/cmd/evald/deploy/alerttest"
	"github.com/evald/evald/cmd/evald/internal/bench"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda"
	"github.com/evald/evald/kernels/cuda/driver/fake"
	"github.com/evald/evald/kernels/cuda/emutest"
	"github.com/evald/evald/nn/gpu"
	"github.com/evald/evald/nn/net"
)

// TestGPU runs the tests below with the fake driver and the emulated kernels.
func TestGPU(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("EVALD_CUDA_DRIVER", "") // restores it after the test; Install sets it
	kernels, err := emutest.Library(folder)
	if errors.Is(err, emutest.ErrNoCompiler) {
		t.Skip(err)
	}
	gametest.OK(t, err)
	gametest.Must(fake.Install(folder))(t)
	env := []string{"EVALD_CUDA_DRIVER=" + os.Getenv("EVALD_CUDA_DRIVER"), "EVALD_FAKE_KERNELS=" + kernels}
	t.Run("backend", func(t *testing.T) { testGPUBackend(t, env) })
	t.Run("tables", func(t *testing.T) { testGPUTables(t, env) })
	t.Run("devices", func(t *testing.T) { testGPUDevices(t, env) })
	t.Run("serve", func(t *testing.T) { testGPULost(t, env) })
	t.Run("watch", func(t *testing.T) { testGPUWatched(t, env) })
	t.Run("bench", func(t *testing.T) { testGPUBench(t, env) })
}

// program runs this program in a process of its own, with the driver that env names.
func program(t *testing.T, stdin string, env []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, said strings.Builder
	p := exec.CommandContext(t.Context(), os.Args[0], args...)
	p.Env = append(append(os.Environ(), asProgram+"=1", "EVALD_CPU_PATH=go", "GORACE=atexit_sleep_ms=0"), env...)
	p.Stdin, p.Stdout, p.Stderr = strings.NewReader(stdin), &out, &said
	if err := p.Run(); err != nil && p.ProcessState == nil {
		t.Fatal(err)
	}
	return p.ProcessState.ExitCode(), out.String(), said.String()
}

// The GPU answers if it works. If it does not, gpu refuses with the reason, and auto reports that once and continues.
func testGPUBackend(t *testing.T, env []string) {
	const failed = "kernel tower_64: "
	for name, test := range map[string]struct {
		env           []string
		backend       string
		status        int
		source        string // of the answers, one per answer
		says, saysNot string
		batch         int
	}{
		"gpu":  {env, "gpu", exitOK, "gpu gpu gpu", "backend gpu: network seeded-2x16 on the gpu, tower_64 on 0: Fake GPU 0, sm_90", "NO GPU", 9},
		"auto": {env, "auto", exitOK, "gpu gpu gpu", "Fake GPU 0, sm_90, 4 multiprocessors, 1.0 GiB; should it fail, network seeded-2x16 on the cpu, path go", "NO GPU", 9},
		"cpu":  {env, "cpu", exitOK, "cpu cpu cpu", "on the cpu, path go", "GPU", 9},
		"gpu without a driver": {
			[]string{"EVALD_CUDA_DRIVER=/no/such.so"},
			"gpu", exitBadInput, "",
			"evald: --backend gpu: no CUDA driver library: /no/such.so: cannot open shared object file: No such file or directory; --backend cpu evaluates networks\n", "on the", 9,
		},
		"auto without a driver": {
			[]string{"EVALD_CUDA_DRIVER=/no/such.so"},
			"auto", exitOK, "cpu cpu cpu",
			"evald: NO GPU, the CPU evaluates (path go, ", "on the gpu", 9,
		},
		"gpu with a kernel that faults in its trial": {
			append(slices.Clone(env), "EVALD_FAKE_TRIAL=1", "EVALD_GPU_WITHOUT=tower_64_half,wide_64,few_64", "EVALD_FAKE_FAULTS=hopper_64:1:-1:719"),
			"gpu", exitOK, "gpu gpu gpu", "evald: GPU 0: kernel hopper_64 is not used: ", "NO GPU", 9,
		},
		"gpu without a device": {
			append(slices.Clone(env), "EVALD_FAKE_FAULTS=cuInit:1:1:100"), "gpu", exitBadInput, "", "cuInit: CUDA_ERROR_NO_DEVICE (100)", "on the", 9,
		},
		"gpu that fails its self-test": {
			append(slices.Clone(env), "EVALD_FAKE_FAULTS=kernel:1:1:-1"), "gpu", exitBadInput, "",
			"evald: --backend gpu: GPU 0: " + failed + "self-test failed: ", "on the", 9,
		},
		"auto that fails its self-test": {
			append(slices.Clone(env), "EVALD_FAKE_FAULTS=kernel:1:1:-1"), "auto", exitOK, "cpu cpu cpu",
			"GPU 0: " + failed + "self-test failed: ", "on the gpu", 9,
		},
		"auto that fails later": {
			append(slices.Clone(env), "EVALD_FAKE_FAULTS=kernel:4:-1:719"), "auto", exitOK, "gpu cpu cpu",
			"evald: GPU 0: cuStream", "NO GPU", 1,
		},
		"gpu that fails later": {
			append(slices.Clone(env), "EVALD_FAKE_FAULTS=kernel:4:-1:719"), "gpu", exitBadInput, "",
			"CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure; it is tried again until it works\n", "NO GPU", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, said := program(t, strings.Repeat("44554\n", 3), test.env, "eval", "-v", "--backend", test.backend, "--model", "seeded-2x16",
				"--batch", fmt.Sprint(test.batch), "--threads", "1")
			if status != test.status || strings.Count(said, test.says) != 1 || strings.Contains(said, test.saysNot) {
				t.Errorf("status %d, messages %s\nwant %d and once %q, not %q", status, said, test.status, test.says, test.saysNot)
			}
			var sources []string
			for _, m := range regexp.MustCompile(`"best":2,"source":"(\w+)"`).FindAllStringSubmatch(out, -1) {
				sources = append(sources, m[1])
			}
			if got := strings.Join(sources, " "); status == exitOK && got != test.source {
				t.Errorf("answers are by %q, want %q: %s", got, test.source, out)
			}
		})
	}
}

// A network of pattern tables has the CPU's bits on the GPU. gpu sends it all rows, and auto those of large batches. If the GPU fails, gpu
// refuses with the reason, and the CPU answers for auto.
func testGPUTables(t *testing.T, env []string) {
	const rows = 130 // more than the CPU gets in any case
	var lines strings.Builder
	for _, p := range gametest.Open(gametest.Rand(1), game.MustBoard(game.Connect4), rows) {
		lines.WriteString(game.MustBoard(game.Connect4).Text(p) + "\n")
	}
	model := filepath.Join(t.TempDir(), "tables.safetensors") // smaller than default-fast, which testGPUDevices evaluates
	putFile(t, model, string(gametest.Must(smallTables(t).Marshal())(t)))
	eval := func(env []string, backend string, batch int) (status int, out, said string) {
		return program(t, lines.String(), env, "eval", "-v", "--backend", backend, "--model", model, "--batch", fmt.Sprint(batch), "--threads", "1")
	}
	_, want, _ := eval(env, "cpu", rows)
	for name, test := range map[string]struct {
		env     []string
		backend string
		batch   int
		status  int
		source  string // of all answers
		says    string
	}{
		"gpu":       {nil, "gpu", rows, exitOK, "gpu", "backend gpu: network pattern64x16x16 on the gpu, tables_128 on 0: Fake GPU 0, sm_90"},
		"auto":      {nil, "auto", rows, exitOK, "gpu", " rows, or should it fail, network pattern64x16x16 on the cpu, path "},
		"auto, few": {nil, "auto", 1, exitOK, "fast", "tables_128 on 0: Fake GPU 0"},
		"auto that fails later": {
			[]string{"EVALD_FAKE_FAULTS=cuStreamQuery:1:-1:719,cuStreamSynchronize:4:-1:719"}, "auto", rows, exitOK, "fast", "evald: GPU 0: cuStream",
		},
		"gpu that fails its self-test": {
			[]string{"EVALD_FAKE_FAULTS=kernel:1:1:-1"}, "gpu", rows, exitBadInput, "", "evald: --backend gpu: GPU 0: kernel tables_128: self-test failed: ",
		},
		"gpu without a driver": {
			[]string{"EVALD_CUDA_DRIVER=/no/such.so"}, "gpu", rows, exitBadInput, "", "evald: --backend gpu: no CUDA driver library: /no/such.so",
		},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, said := eval(append(slices.Clone(env), test.env...), test.backend, test.batch)
			if status != test.status || strings.Count(said, test.says) != 1 {
				t.Errorf("status %d, messages %s\nwant %d and once %q", status, said, test.status, test.says)
			}
			if test.status != exitOK {
				return
			}
			got, all := strings.Split(out, "\n"), strings.Split(want, "\n")
			for i, line := range all {
				if i == rows {
					break
				}
				if line = strings.Replace(line, `"source":"fast"`, `"source":"`+test.source+`"`, 1); len(got) != len(all) || got[i] != line {
					t.Fatalf("%d answers, want %d\n%s\nwant as on the CPU\n%s", len(got)-1, rows, got[min(i, len(got)-1)], line)
				}
			}
		})
	}
	for _, backend := range []string{"gpu", "auto"} {
		_, out, said := program(t, "8x7x4:44\n", env, "eval", "--backend", backend, "--model", "default-fast")
		if !strings.Contains(out+said, "model default-fast does not know 8x7x4: it knows 7x6x4 alone") {
			t.Errorf("%s on another board: %s%s", backend, out, said)
		}
	}
	testBenchTables(t, env)
}

// bench eval measures a network of pattern tables, by the bytes of its rows.
func testBenchTables(t *testing.T, env []string) {
	status, out, said := program(t, "", env, "bench", "eval", "--backend", "gpu", "--networks", "default-fast", "--batches", "1,3", "--round", "1ms", "--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if status != exitOK || len(lines) != 2 {
		t.Fatalf("bench eval: status %d, %s%s", status, out, said)
	}
	for i, line := range lines {
		var r bench.GPURow
		gametest.OK(t, json.Unmarshal([]byte(line), &r))
		if r.Network != "default-fast" || r.Batch != 1+2*i || r.Kernel != "tables_256" || r.Launch <= 0 || r.EndToEnd <= 0 || r.Latency <= 0 || r.FLOPs != 0 ||
			r.Bytes != r.Launch*33*256 {
			t.Errorf("bench eval: %s", line)
		}
	}
	for _, args := range [][]string{{"--peer", "pytorch"}, {"--kernel", "tower_64"}} {
		status, out, said := program(t, "", env, append([]string{"bench", "eval", "--backend", "gpu", "--networks", "default-fast"}, args...)...)
		if status == exitOK || out != "" || !strings.Contains(said, "network default-fast: ") {
			t.Errorf("bench eval %v: status %d, %s%s", args, status, out, said)
		}
	}
	status, out, said = program(t, "", env, "bench", "eval", "--backend", "cpu", "--peer", "onnxruntime", "--model", "default-fast")
	if status == exitOK || out != "" || !strings.Contains(said, "is a network of pattern tables, and this needs a network of convolutions") {
		t.Errorf("bench eval --peer of tables: status %d, %s%s", status, out, said)
	}
}

// devices -v lets each GPU work. --gpus takes those that it names, which must be there.
func testGPUDevices(t *testing.T, env []string) {
	env = append(slices.Clone(env), "EVALD_FAKE_DEVICES=2")
	status, out, said := program(t, "", env, "devices", "-v")
	if status != exitOK || said != "" || len(regexp.MustCompile(`gpu  (\d): Fake GPU \d, .*\n     GPU-00010203-0405-0607-0809-0a0b0c0d0e0[01], PCI ffff:ff:00\.0\n     works: network default by wide_64 up to 8, tower_64, 256 rows in \d+ launches, busy \d.*s, 0 faults\n     works: network default-fast by tables_256, 256 rows in \d+ launches, busy \d.*s, 0 faults\n`).FindAllString(out, -1)) != 2 {
		t.Errorf("status %d, %s%s", status, out, said)
	}
	for _, args := range [][]string{
		{"match", "mcts:model=seeded-2x16,visits=1", "random", "--games", "2"},
		{"play", "--agent", "mcts:model=seeded-2x16,visits=1", "--evaluate", "uniform"},
		{"bench", "eval", "--backend", "gpu", "--networks", "1x16"},
	} {
		status, _, said := program(t, "1\n", env, append(args, "--gpus", "2")...)
		if status != exitBadInput || !strings.Contains(said, "GPU 2: must be from 0 to 1: driver ") {
			t.Errorf("%v --gpus 2: status %d, %s", args, status, said)
		}
	}
	status, out, said = program(t, "", env, "bench", "eval", "--backend", "gpu", "--networks", "1x16/8/16", "--batches", "1", "--round", "1ms", "--gpus", "1")
	if status != exitOK || said != "" || !strings.Contains(out, "device 1: Fake GPU 1") {
		t.Errorf("bench eval --gpus 1: status %d, %s%s", status, out, said)
	}
	for gpus, test := range map[string]struct {
		status int
		says   string
	}{
		"1":   {exitOK, "on the gpu, tower_64 on 1: Fake GPU 1, sm_90, 4 multiprocessors, 1.0 GiB; should it fail"},
		"1,0": {exitOK, "on the gpu, tower_64 on 1: Fake GPU 1, sm_90, 4 multiprocessors, 1.0 GiB, tower_64 on 0: Fake GPU 0"},
		"2":   {exitBadInput, "GPU 2: must be from 0 to 1: driver "},
		"1,1": {exitBadInput, "GPU 1: is named twice"},
	} {
		status, _, said := program(t, "-\n", env, "eval", "-v", "--gpus", gpus, "--model", "seeded-2x16")
		if status != test.status || !strings.Contains(said, test.says) {
			t.Errorf("--gpus %s: status %d, %s, want %d and %q", gpus, status, said, test.status, test.says)
		}
	}
}

// A service by the GPU alone ends with a clear word if it has lost its GPU, and not before.
func testGPULost(t *testing.T, env []string) {
	// When the model is opened, four calls of cuStreamSynchronize are in the self-tests of three kernels.
	env = append(slices.Clone(env), "EVALD_FAKE_FAULTS=cuStreamQuery:1:-1:700,cuStreamSynchronize:5:-1:700,cuCtxCreate_v2:2:-1:700")
	p := exec.CommandContext(t.Context(), os.Args[0], "serve", "--backend", "gpu", "--model", "seeded-2x16", "--http", "127.0.0.1:0", "--grpc", "", "--metrics", "")
	p.Env = append(append(os.Environ(), asProgram+"=1", "EVALD_CPU_PATH=go", "GORACE=atexit_sleep_ms=0"), env...)
	stderr, err := p.StderrPipe()
	gametest.OK(t, err)
	gametest.OK(t, p.Start())
	var said strings.Builder
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if _, after, ok := strings.Cut(lines.Text(), " http=127.0.0.1:"); ok {
			port, _, _ := strings.Cut(after, " ")
			r, err := http.Post("http://127.0.0.1:"+port+"/v2/models/seeded-2x16/infer", "application/json",
				strings.NewReader(`{"inputs": [{"name": "moves", "datatype": "BYTES", "shape": [1], "data": ["44554"]}]}`))
			gametest.OK(t, err)
			r.Body.Close()
			if r.StatusCode < 500 {
				t.Errorf("a request whose GPU faults: status %d", r.StatusCode)
			}
		}
	}
	if err := p.Wait(); err == nil || p.ProcessState.ExitCode() != exitBadInput {
		t.Errorf("the service ends: %v", err)
	}
	for _, want := range []string{"6 attempts to use it again have failed: it is LOST to this process", "the service ends", "--backend auto continues on the CPU"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("said %s\nwant %q", said.String(), want)
		}
	}
}

// gpuService is evald serve in a process of its own, with the fake driver.
type gpuService struct {
	*exec.Cmd
	address map[string]string
	log     *syncBuffer
}

// ask returns the answer to a position.
func (s *gpuService) ask(t *testing.T) (status int, answer string) {
	t.Helper()
	return posted(t, "http://"+s.address["http"]+"/v2/models/seeded-2x16/infer", `{"inputs": [{"name": "moves", "datatype": "BYTES", "shape": [1], "data": ["44554"]}]}`)
}

// ready returns what probes see, over HTTP and gRPC.
func (s *gpuService) ready(t *testing.T) (int, healthpb.HealthCheckResponse_ServingStatus) {
	t.Helper()
	status, _ := s.get(t, s.address["http"]+"/v2/health/ready")
	conn := gametest.Must(grpc.NewClient(s.address["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	return status, gametest.Must(healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}))(t).Status
}

func (s *gpuService) get(t *testing.T, url string) (status int, text string) {
	t.Helper()
	r, err := http.Get("http://" + url)
	return answered(t, r, err)
}

// A service whose GPU does not work is ready if the CPU may answer, and is not if it has lost the
// only GPU that may. Alerts fire, after a reload too, which does not bring the GPU back.
func testGPUWatched(t *testing.T, env []string) {
	const later = "cuStreamQuery:1:-1:700,cuStreamSynchronize:5:-1:700,cuCtxCreate_v2:2:-1:"
	const lost, fails = later + "700", later + "2" // of these codes, CUDA is only lost with the first
	start := func(backend, faults string) *gpuService {
		s := &gpuService{log: new(syncBuffer)}
		s.Cmd = exec.CommandContext(t.Context(), os.Args[0], "serve", "--backend", backend, "--model", "seeded-2x16", "--drain-delay", "1h",
			"--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
		s.Env = append(append(os.Environ(), asProgram+"=1", "EVALD_CPU_PATH=go", "EVALD_FAKE_FAULTS="+faults), env...)
		s.Stderr = s.log
		gametest.OK(t, s.Start())
		t.Cleanup(func() { _ = s.Process.Kill(); _ = s.Wait() })
		return s
	}
	services := map[string]*gpuService{"gpu": start("gpu", lost), "auto": start("auto", lost), "auto, not lost": start("auto", fails), "auto, never works": start("auto", "kernel:1:-1:-1")}
	for name, s := range services {
		s.address = addresses(t, s.log)
		if status, answer := s.ask(t); name == "gpu" && status < 500 || name != "gpu" && !strings.Contains(answer, `"cpu"`) {
			t.Errorf("%s: a request whose GPU faults: %d %s", name, status, answer)
		}
	}
	var cases []alerttest.Case
	for name, want := range map[string]struct {
		says   string
		ready  int
		serves healthpb.HealthCheckResponse_ServingStatus
		fires  map[string]string
	}{
		"gpu":               {"not ready any more", 400, healthpb.HealthCheckResponse_NOT_SERVING, map[string]string{"EvaldGPULost": `instance: a, gpu: "0"`, "EvaldNotReady": "instance: a"}},
		"auto":              {"it is LOST to this process", 200, healthpb.HealthCheckResponse_SERVING, map[string]string{"EvaldGPULost": `instance: a, gpu: "0"`}},
		"auto, never works": {"NO GPU, the CPU evaluates", 200, healthpb.HealthCheckResponse_SERVING, map[string]string{"EvaldGPUMissing": "instance: a"}},
		"auto, not lost":    {"it is tried again until it works", 200, healthpb.HealthCheckResponse_SERVING, map[string]string{"EvaldGPUFails": `instance: a, gpu: "0"`}},
	} {
		s := services[name]
		eventually(t, s.log, want.says, func() bool { return strings.Contains(s.log.String(), want.says) })
		if name == "auto" {
			gametest.OK(t, s.Process.Signal(syscall.SIGHUP))
			eventually(t, s.log, "the reload", func() bool { return strings.Count(s.log.String(), `msg="model is ready"`) == 2 })
			if status, answer := s.ask(t); status != http.StatusOK || !strings.Contains(answer, `"cpu"`) {
				t.Errorf("after a reload: %d %s", status, answer)
			}
		}
		if status, answer := s.ask(t); name == "gpu" && status != http.StatusServiceUnavailable { // a client may ask another server
			t.Errorf("a request after the loss: %d %s, want 503", status, answer)
		}
		if ready, serves := s.ready(t); ready != want.ready || serves != want.serves {
			t.Errorf("%s: probes see %d and %v, want %d and %v", name, ready, serves, want.ready, want.serves)
		}
		c := alerttest.Case{Name: name, Fires: want.fires}
		for range 16 {
			_, text := s.get(t, s.address["metrics"]+"/metrics")
			c.Scrapes = append(c.Scrapes, alerttest.Now(text))
		}
		cases = append(cases, c)
	}
	alerttest.Check(t, cases)
}

// The kit for a machine with a GPU completes its runs with the fake driver and says that the driver is fake. Each day has run A or run B.
// Without a driver it refuses.
func testGPUBench(t *testing.T, env []string) {
	folder := t.TempDir()
	runs := map[string]bool{"A": gametest.Today(t, 0, 2), "B": gametest.Today(t, 1, 2), "C": true}
	for _, args := range [][]string{{"test", "-c", "-tags", "gpu", "-o", "gpu.all", "../../nn/gpu"}, {"build", "-o", "run", "../../nn/gpu/bench"}} {
		if args[0] == "test" && !runs["A"] {
			continue
		}
		args[len(args)-2] = filepath.Join(folder, args[len(args)-2])
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	// Run A runs all tests of a device one after the other. Each day has one of them here, because emulated they take half a minute.
	var today []string
	if runs["A"] {
		list := exec.Command(filepath.Join(folder, "gpu.all"), "-test.list", "^TestGPU")
		list.Env = append(os.Environ(), "EVALD_GPU=1") // no driver is made
		device := strings.Fields(string(gametest.Must(list.Output())(t)))
		for i, name := range device {
			if gametest.Today(t, 2*i, 2*len(device)) { // of the days that have run A
				today = append(today, name)
			}
		}
	}
	for name, text := range map[string]string{
		"driver.test": "#!/bin/sh\nexit 1\n", // its fault tests need a real device
		"gpu.test":    fmt.Sprintf("#!/bin/sh\nexec %s -test.run '^(%s)$' \"$@\"\n", filepath.Join(folder, "gpu.all"), strings.Join(today, "|")),
		"evald":       fmt.Sprintf("#!/bin/sh\n%s=1 exec %s \"$@\"\n", asProgram, os.Args[0]),
	} {
		gametest.OK(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o755))
	}
	run := func(run string, env ...string) (string, error) {
		batches := map[bool]string{true: "1,2", false: "1"}[run == "A"] // emulated, the slow kernels of run B take half a minute for two
		p := exec.CommandContext(t.Context(), filepath.Join(folder, "run"), run, "-networks", "1x16/8/16", "-batches", batches, "-round", "1ms", "-step", "5m", "-time", "30m", "-o", filepath.Join(folder, "out"))
		p.Env = append(append(os.Environ(), "EVALD_PYTHON=/nowhere/python", "PATH=/bin:/usr/bin", "TMPDIR="+folder, "GORACE=atexit_sleep_ms=0"), env...)
		out, err := p.CombinedOutput()
		return string(out), err
	}
	if out, err := run("A", "EVALD_CUDA_DRIVER=/no/such.so"); err == nil || !strings.Contains(out, "run: 0 devices: no CUDA driver library: /no/such.so") {
		t.Errorf("without a driver: %v, %s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "out/*.jsonl")); len(left) > 0 {
		t.Error("without a driver there are rows")
	}
	variants := gpu.Variants(net.Config{Blocks: 1, Channels: 16, HeadChannels: 8, Hidden: 16}, game.Connect4, gpu.Target{Major: 9, Shared: 227 << 10, Processors: 4})
	own := 0 // of the network's width
	for _, k := range cuda.Kernels() {
		if k.Channels == 64 {
			own++
		}
	}
	for name, c := range map[string]struct {
		rows map[string]int // that have figures, by part
		says string
	}{
		"A": {map[string]int{"speeds": 2}, "tests: gpu.test: done"},
		"B": {map[string]int{"kernels": own}, "profiles: ncu"},
		"C": {map[string]int{}, "/nowhere/python"},
	} {
		if !runs[name] {
			continue
		}
		out, err := run(name, env...)
		if (err != nil) != (name == "C") || !strings.Contains(out, "EMULATED") || !strings.Contains(out, c.says) {
			t.Errorf("run %s: %v\n%s", name, err, out)
		}
		text := getFile(t, filepath.Join(folder, "out", name+".jsonl"))
		got := map[string]int{}
		for line := range strings.Lines(string(text)) {
			var x struct {
				Part, Name, Error string
				Result            *bench.GPURow
			}
			if err := json.Unmarshal([]byte(line), &x); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			if x.Error != "" && name != "C" {
				t.Errorf("run %s: %s", name, line)
			}
			r := x.Result
			if r == nil || r.Batch == 0 {
				continue
			}
			got[x.Part]++
			if r.Launch <= 0 || r.EndToEnd <= 0 || r.Latency <= 0 || r.FLOPs <= 0 || r.Waves < 1 || !r.Emulated ||
				x.Part == "speeds" && r.Kernel != "wide_64" || x.Part != "speeds" && !strings.Contains(x.Name, r.Kernel) {
				t.Errorf("run %s: %s", name, line)
			}
		}
		if !maps.Equal(got, c.rows) {
			t.Errorf("run %s has %v rows with figures, want %v\n%s", name, got, c.rows, out)
		}
	}
	status, out, said := program(t, "", env, "bench", "eval", "--backend", "gpu", "--networks", "1x16", "--kernel", "none", "--batches", "1")
	if status == exitOK || out != "" || !strings.Contains(said, `kernel "none" does not evaluate network 1x16`) || !strings.Contains(said, strings.Join(variants, ", ")) {
		t.Errorf("an unknown kernel: status %d, %s%s", status, out, said)
	}
}
