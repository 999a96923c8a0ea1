//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/game/gametest"
)

// TestMain runs the tests, or is ./run if it has that name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "run" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A GPU that does not exist, and rows as evald writes them: printed by `row BATCH`.
const shell = `#!/bin/sh
here=$(dirname "$0")
if [ "$1" = devices ]; then
	echo '{"gpu":{"library":"none","version":12040,"devices":[{"index":0,"name":"Fake GPU 0","major":9,"minor":0,"shared_bytes":232448}]}}'
	exit
fi
for word; do
	case $last in
	--batches) batches=$(echo $word | tr , ' ') ;;
	--networks) network=$word ;;
	--kernel) kernel=$word ;;
	--peer) peer=$word ;;
	esac
	last=$word
done
row() {
	echo "{\"network\":\"$network\",\"kernel\":\"${kernel:-best}\",\"device\":\"0: Fake GPU 0\",\"driver\":\"none\",\"emulated\":true,\"batch\":$1,\"launch\":${1}e6,\"flops\":1e12,\"end_to_end\":5e5,\"latency_seconds\":0.001}"
}
`

// kit is a folder as make bench-gpu packs it, whose evald is a script.
type kit struct{ folder, out string }

func newKit(t *testing.T, evald string) kit {
	t.Helper()
	k := kit{folder: t.TempDir()}
	k.out = filepath.Join(k.folder, "out")
	self := gametest.Must(os.Executable())(t)
	if err := os.Link(self, filepath.Join(k.folder, "run")); err != nil {
		text := gametest.Must(os.ReadFile(self))(t)
		k.write(t, "run", string(text))
	}
	k.write(t, "evald", shell+evald)
	k.write(t, "driver.test", "#!/bin/sh\nexit 1\n")
	k.write(t, "gpu.test", `#!/bin/sh
echo "=== RUN   TestGPUBatches"
echo "--- PASS: TestGPUBatches (0.10s)"
echo "=== RUN   TestGPUAccuracy"
echo "    gpu_test.go:12: 3 of 9 best moves differ"
echo "--- FAIL: TestGPUAccuracy (0.10s)"
echo "    --- PASS: TestGPUAccuracy/one (0.10s)"
echo "        --- PASS: TestGPUAccuracy/one/deep (0.10s)"
echo "    --- SKIP: TestGPUAccuracy/two (0.10s)"
echo FAIL
exit 1
`)
	return k
}

func (k kit) write(t *testing.T, name, text string) {
	t.Helper()
	gametest.OK(t, os.WriteFile(filepath.Join(k.folder, name), []byte(text), 0o755))
}

func (k kit) command(t *testing.T, args ...string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), filepath.Join(k.folder, "run"), args...)
	c.Env = append(os.Environ(), "OUT="+k.out, "TMPDIR="+k.folder, "GORACE=atexit_sleep_ms=0")
	return c
}

func (k kit) run(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	text, err := k.command(t, args...).CombinedOutput()
	return string(text), err
}

// said are the rows of the folder, each as "part: name: error or what is missing".
func (k kit) said(t *testing.T) (lines []string) {
	t.Helper()
	all, _, err := readRows(k.out)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		if x.Time.IsZero() || x.Error != "" && x.Missing != "" {
			t.Errorf("row %+v", x)
		}
		lines = append(lines, strings.TrimSuffix(x.Part+": "+x.Name+": "+x.Error+x.Missing, ": "))
	}
	return lines
}

// A run has a row for each test, each kernel's self-test and each batch. One whose program fails names the error, and the
// others are measured by new programs.
func TestRowsThatFail(t *testing.T) {
	k := newKit(t, `
for n in $batches; do
	[ $network-$n = 2x64-8 ] && { echo 'evald: boom' >&2; exit 3; }
	if [ $network-$n = 2x64-64 ]; then
		echo "{\"network\":\"$network\",\"batch\":$n,\"error\":\"batch 64: lost\"}"
		echo 'evald: batch 64: lost' >&2
		exit 1
	fi
	row $n
done
[ $network = 1x2048 ] && exit 4
exit 0
`)
	out, err := k.run(t, "A", "-networks", "1x2048,2x64", "-batches", "1,8,64,256")
	if err == nil || !strings.Contains(out, "rows of run A have an error") || !strings.Contains(out, "EMULATED") {
		t.Errorf("%v\n%s", err, out)
	}
	got := k.said(t)
	var kernels []string
	got = slices.DeleteFunc(got, func(line string) bool {
		name, test := strings.CutPrefix(line, "self-tests: ")
		if test {
			kernels = append(kernels, name)
		}
		return test
	})
	want := []string{
		"tests: driver.test: it is for GPUs alone",
		"choice: devices -v",
		"tests: gpu.test TestGPUBatches",
		"tests: gpu.test TestGPUAccuracy: failed: 3 of 9 best moves differ",
		"tests: gpu.test TestGPUAccuracy/one",
		"tests: gpu.test TestGPUAccuracy/two: skipped: 3 of 9 best moves differ",
		"tests: gpu.test: exit status 1:",
		"speeds: 1x2048, batch 1", "speeds: 1x2048, batch 8", "speeds: 1x2048, batch 64", "speeds: 1x2048, batch 256",
		"speeds: 2x64, batch 1", "speeds: 2x64, batch 8: exit status 3: evald: boom", "speeds: 2x64, batch 64: batch 64: lost", "speeds: 2x64, batch 256",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(kernels) < 4 || !slices.Contains(kernels, "2x64 tower_64_half, batch 1") {
		t.Errorf("self-tests %v", kernels)
	}
	again, err := k.run(t, "table")
	if err != nil || !strings.HasSuffix(out, again[strings.Index(again, "speeds of run A"):]+"run: "+out[strings.LastIndex(out, "run: ")+5:]) {
		t.Errorf("the table from the rows alone is another: %v\n%s\n%s", err, again, out)
	}
	for _, line := range []string{
		"speeds of run A: 6 done, 2 failed, 0 missing",
		"2x64   best  256", "2x64, batch 8: exit status 3: evald: boom",
	} {
		if !strings.Contains(strings.Join(strings.Fields(again), " "), strings.Join(strings.Fields(line), " ")) {
			t.Errorf("the table lacks %q:\n%s", line, again)
		}
	}
}

// A program that always fails is given up after two tries, with a row for each batch.
func TestGivesUp(t *testing.T) {
	k := newKit(t, "echo x >>$here/started; echo 'evald: no' >&2; exit 1")
	if _, err := k.run(t, "C", "-batches", "1,2,3,4"); err == nil {
		t.Error("no error")
	}
	started, err := os.ReadFile(filepath.Join(k.folder, "started"))
	if lines := k.said(t); err != nil || len(lines) != 6*4 || strings.Count(string(started), "x") != 2*6 || lines[23] != "peers: 6x64 pytorch-compile fp16, batch 4: exit status 1: evald: no" {
		t.Errorf("%v; started %q\n%s", err, started, strings.Join(lines, "\n"))
	}
}

// What is not there is missing, which is no failure.
func TestMissing(t *testing.T) {
	k := newKit(t, `[ $peer = pytorch ] && { for n in $batches; do row $n; done; exit; }; echo "No module named 'tensorrt'" >&2; exit 1`)
	if out, err := k.run(t, "C", "-batches", "1,2", "-networks", "1x16"); err != nil || !strings.Contains(out, "peers of run C: 4 done, 0 failed, 8 missing") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Setenv("PATH", "/bin:/usr/bin")
	k = newKit(t, "for n in $batches; do row $n; done")
	if out, err := k.run(t, "B", "-networks", "1x16", "-batches", "1"); err != nil || !strings.Contains(out, "ncu: missing: not found in the PATH or in ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A row that hangs costs its limit, and the next ones are measured. When the run's time is over the run ends, and the rows
// say what was not measured. What hung is killed.
func TestDeadlines(t *testing.T) {
	k := newKit(t, `for n in $batches; do [ $peer-$n = tensorrt-8 ] && sleep 1000; row $n; done`)
	if out, err := k.run(t, "C", "-batches", "1,8,64", "-row", "2s"); err == nil || !strings.Contains(out, "17 done, 1 failed") {
		t.Errorf("%v\n%s", err, out)
	}
	if lines := k.said(t); len(lines) != 18 || lines[10] != "peers: 6x64 tensorrt fp16, batch 8: it took longer than 2s" {
		t.Errorf("%q", lines)
	}
	k = newKit(t, "row 1; sleep 1000")
	if out, err := k.run(t, "C", "-batches", "1,8", "-time", "4s"); err == nil || !strings.Contains(out, "1 done, 11 failed") {
		t.Errorf("%v\n%s", err, out)
	}
	if lines := k.said(t); len(lines) != 12 || lines[11] != "peers: 6x64 pytorch-compile fp16, batch 8: its time in the run is over" {
		t.Errorf("%q", lines)
	}
}

// A run that is killed at any moment leaves all rows that it had named, and a table can be made of them. The program that it
// had started dies too. The next run goes on in the same file, behind a torn line.
func TestKilled(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		k := newKit(t, "[ -e $here/again ] || exec 8>$here/alive; for n in $batches; do row $n; done; [ -e $here/again ] || exec sleep 1000")
		gametest.OK(t, syscall.Mkfifo(filepath.Join(k.folder, "alive"), 0o600))
		c := k.command(t, "C", "-batches", "1,8,64", "-networks", "1x16")
		stderr := gametest.Must(c.StderrPipe())(t)
		gametest.OK(t, c.Start())
		alive := gametest.Must(os.Open(filepath.Join(k.folder, "alive")))(t)
		defer alive.Close()
		in := bufio.NewScanner(stderr)
		for in.Scan() && !strings.Contains(in.Text(), "batch 64: done") {
		}
		gametest.OK(t, c.Process.Signal(signal))
		if _, err := io.Copy(io.Discard, alive); err != nil { // ends when the program has
			t.Fatal(err)
		}
		_ = c.Wait()
		if lines := k.said(t); len(lines) < 3 || lines[2] != "peers: 1x16 pytorch bf16, batch 64" {
			t.Fatalf("after %v: %q", signal, lines)
		}
		path := filepath.Join(k.out, "C.jsonl")
		if signal == syscall.SIGKILL {
			text := gametest.Must(os.ReadFile(path))(t)
			gametest.OK(t, os.WriteFile(path, text[:len(text)-20], 0o600))
			if out, err := k.run(t, "table"); err != nil || !strings.Contains(out, "2 done, 0 failed") || !strings.Contains(out, "1 lines are no rows") {
				t.Errorf("%v\n%s", err, out)
			}
		}
		k.write(t, "again", "")
		if out, err := k.run(t, "C", "-batches", "1,8,64", "-networks", "1x16"); err != nil || !strings.Contains(out, "18 done, 0 failed") {
			t.Errorf("after %v the run cannot be repeated: %v\n%s", signal, err, out)
		}
	}
}

// Without a GPU, or a program, or with arguments that mean nothing, there is no run and no row.
func TestRefuses(t *testing.T) {
	k := newKit(t, "")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "which run? A, B, C or table"},
		{[]string{"D"}, `no run "D"`},
		{[]string{"A", "-batches", "1,x"}, `"x" is no size`},
		{[]string{"A", "6x64"}, `unexpected argument "6x64"`},
		{[]string{"table"}, "has no rows"},
	} {
		if out, err := k.run(t, c.args...); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%q: %v, %s; want %q", c.args, err, out, c.want)
		}
	}
	k.write(t, "evald", `#!/bin/sh
echo '{"gpu":null,"no_gpu":"no CUDA driver library"}'`)
	if out, err := k.run(t, "A"); err == nil || !strings.Contains(out, "run: 0 devices: no CUDA driver library") {
		t.Errorf("%v, %s", err, out)
	}
	os.Remove(filepath.Join(k.folder, "gpu.test"))
	if out, err := k.run(t, "A"); err == nil || !strings.Contains(out, "make bench-gpu builds it") {
		t.Errorf("%v, %s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(k.out, "*.jsonl")); len(left) > 0 {
		t.Errorf("rows: %v", left)
	}
}

func TestNcuMetrics(t *testing.T) {
	const out = `==PROF== Connected to process 7 (/kit/evald)
{"network":"6x64"}
"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"
"0","tower_64","GPU Speed Of Light Throughput","Duration","us","146.50"
"0","tower_64","GPU Speed Of Light Throughput","Elapsed Cycles","cycle","251,000"
"0","tower_64","Launch Statistics","Registers Per Thread","register/thread","234"
"0","tower_64","Occupancy","",""
"0","tower_64","Occup`
	want := map[string]string{"Duration": "146.50 us", "Elapsed Cycles": "251,000 cycle", "Registers Per Thread": "234 register/thread"}
	if diff := cmp.Diff(want, ncuMetrics(out)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var w strings.Builder
	result := gametest.Must(json.Marshal(map[string]any{"metrics": want}))(t)
	table(&w, []row{{Run: "B", Part: "profiles", Name: "ncu 6x64, batch 4096", Result: result}}, 0)
	if !strings.Contains(w.String(), "146.50 us") || strings.Contains(w.String(), "251,000") {
		t.Error(w.String())
	}
}
