//go:build linux

package main

import (
	"bufio"
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
	echo '{"gpu":{"library":"none","version":12040,"devices":[{"index":0,"uuid":"MIG-1","pci":"0000:3b:00.0","name":"Fake GPU 0","major":9,"minor":0,"shared_bytes":232448}]},"tried":[{"gpu":0,"notes":['"$NOTES"']}]}'
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
echo "    --- FAIL: TestGPUAccuracy/one (0.10s)"
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

// tool writes a program that is found in the PATH.
func (k kit) tool(t *testing.T, name, script string) {
	t.Helper()
	k.write(t, name, "#!/bin/sh\n"+script)
	t.Setenv("PATH", k.folder+":"+os.Getenv("PATH"))
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

// A run has a row for each program of tests and each batch. One whose program fails names the error, and the others are measured by new
// programs.
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
	want := []string{
		"clocks: nvidia-smi: not found in the PATH or in /usr/local/nvidia/bin",
		"choice: devices -v",
		"tests: gpu.test: TestGPUAccuracy, TestGPUAccuracy/one failed: exit status 1:",
		"speeds: 1x2048, batch 1", "speeds: 1x2048, batch 8", "speeds: 1x2048, batch 64", "speeds: 1x2048, batch 256",
		"speeds: 2x64, batch 1", "speeds: 2x64, batch 8: exit status 3: evald: boom", "speeds: 2x64, batch 64: batch 64: lost", "speeds: 2x64, batch 256", "runtime: ort-cuda 1x2048", "runtime: ort-cuda 2x64",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
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

// Run A measures the network of pattern tables in batches of its own, but not by ONNX Runtime, which does not compute it.
func TestTables(t *testing.T) {
	k := newKit(t, "for n in $batches; do row $n; done")
	k.write(t, "gpu.test", "#!/bin/sh\n")
	if out, err := k.run(t, "A"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	got := slices.DeleteFunc(k.said(t), func(line string) bool { return !strings.Contains(line, "default-fast") })
	var want []string
	for _, n := range []string{"1", "64", "1024", "16384", "65536", "262144", "1048576"} {
		want = append(want, "speeds: default-fast, batch "+n)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Run A leaves out the kernels that failed in evald's own trial.
func TestTrialFails(t *testing.T) {
	k := newKit(t, `[ "$EVALD_GPU_WITHOUT" = few_64 ] || exit 5; for n in $batches; do row $n; done`)
	k.write(t, "gpu.test", "#!/bin/sh\n")
	t.Setenv("NOTES", `"kernel few_64 is not used: it hung; EVALD_GPU_WITHOUT=few_64 leaves it out from the start"`)
	if out, err := k.run(t, "A", "-networks", "1x16", "-batches", "1"); err != nil || !strings.Contains(out, "EVALD_GPU_WITHOUT=few_64 leaves out what failed") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The canary tests the kernels for Hopper, each on a network of its width, before compute-sanitizer does. A kernel that fails or
// hangs is left out of all later programs, and rows say so; what the sanitizer finds does not leave it out.
func TestCanary(t *testing.T) {
	k := newKit(t, `
echo "$kernel without $EVALD_GPU_WITHOUT in '$LD_LIBRARY_PATH'" >>$here/started
[ $kernel = hopper_128 ] && sleep 1000
[ $kernel = hopper_256 ] && { echo 'evald: lost' >&2; exit 1; }
row 1`)
	k.tool(t, "compute-sanitizer", `[ $2 = memcheck ] && found=9; shift 4; "$@"; exit $found`)
	out, err := k.run(t, "canary", "-step", "3s")
	if err == nil || !strings.Contains(out, "EVALD_GPU_WITHOUT=hopper_128,hopper_256 leaves out what failed") || !strings.Contains(out, "end after 1m27s at the latest") {
		t.Errorf("%v\n%s", err, out)
	}
	got := strings.Join(k.said(t), "\n")
	for _, want := range []string{
		"self-tests: 1x16/8/16 hopper_64, batch 1\n",
		"self-tests: 1x128/8/16 hopper_128, batch 1: it took longer than 3s",
		"self-tests: 1x256/8/16 hopper_256, batch 1: exit status 1: evald: lost",
		"self-tests: default-fast, batch 1\n",
		"sanitizer: default-fast synccheck, batch 1\n",
		"sanitizer: 1x16/8/16 hopper_64 synccheck, batch 1\n",
		"sanitizer: 1x16/8/16 hopper_64 memcheck, batch 1: exit status 9\n",
		"sanitizer: 1x128/8/16 hopper_128 memcheck, batch 1: left out: it failed before",
		"sanitizer: memcheck gpu.test: TestGPUAccuracy, TestGPUAccuracy/one failed: exit status 9:",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the rows lack %q:\n%s", want, got)
		}
	}
	started := string(gametest.Must(os.ReadFile(filepath.Join(k.folder, "started")))(t))
	if strings.Contains(started, "tower") || strings.Count(started, "hopper_128 without") != 1 || !strings.Contains(started, "hopper_64 without hopper_128,hopper_256 in ''\n") {
		t.Errorf("it started\n%s", started)
	}
	rows, _, _ := readRows(k.out)
	if last := rows[len(rows)-1]; last.Without != "hopper_128,hopper_256" {
		t.Errorf("a row without %q", last.Without)
	}
	skip := "-test.skip ^TestGPU(SameBits|Sanitize)$|^TestGPUAccuracy$/ by (hopper_128|hopper_256)$"
	if log := string(gametest.Must(os.ReadFile(filepath.Join(k.out, "canary.log")))(t)); !strings.Contains(log, skip) {
		t.Errorf("the log lacks %q", skip)
	}
}

// Run B measures the kernels of a network's own width, and profiles by name those that were fastest, in the launch after two.
func TestProfiles(t *testing.T) {
	k := newKit(t, `for n in $batches; do case $kernel-$n in hopper_64-264 | wide_64-132) row $n | sed s/1e12/2e12/\;s/e6/e7/ ;; *) row $n ;; esac; done`)
	k.tool(t, "ncu", `
case "$*" in
*--kernel-name\ hopper_64\ --launch-skip\ 2\ *--networks\ 6x64\ --batches\ 6336\ *--kernel\ hopper_64) text='Duration us 146.50' ;;
*--kernel-name\ wide_64\ --launch-skip\ 2\ *--networks\ 6x64\ --batches\ 132\ *--kernel\ wide_64) text='No kernels were profiled.' ;;
*) echo "no: $*" >&2; exit 1 ;;
esac
for word; do [ "$last" = --log-file ] && echo "$text" >$word; last=$word; done`)
	out, err := k.run(t, "B", "-networks", "20x256,6x64", "-batches", "1,132,264")
	got := strings.Join(k.said(t), "\n")
	for _, want := range []string{
		"kernels: 20x256 tower_256, batch 264\n", "kernels: 6x64 hopper_64, batch 1\n",
		"profiles: ncu 6x64 hopper_64, batch 6336\n", "profiles: ncu 6x64 wide_64, batch 132: ncu wrote no metrics into ",
	} {
		if !strings.Contains(got+"\n", want) {
			t.Errorf("%v: the rows lack %q:\n%s\n%s", err, want, got, out)
		}
	}
	if text, err := os.ReadFile(filepath.Join(k.out, "ncu-hopper_64-6336.txt")); err != nil || string(text) != "Duration us 146.50\n" {
		t.Errorf("%v: %s", err, text)
	}
	if strings.Contains(got, "6x64 tower_128") || strings.Contains(got, "6x64 tower_any") || strings.Index(got, "20x256") > strings.Index(got, "6x64") {
		t.Errorf("kernels of another width, or the wrong order:\n%s", got)
	}
}

// Each row has the clocks between its begin and its end, and their file stays. They are those of the GPU that the driver counts first, whatever
// its number is for nvidia-smi.
func TestClocks(t *testing.T) {
	k := newKit(t, "for n in $batches; do sleep 1; row $n; sleep 1; done")
	k.tool(t, "nvidia-smi", `
case "$*" in -i\ 0000:3b:00.0\ *) ;; *) echo "no: $*" >&2; exit 6 ;; esac
while :; do
	echo '2026/11/26 17:16:00.602, 345, 2619, 71.97, 38, 0x0000000000000001'
	echo '2026/11/26 17:16:00.602, 1650, 2619, 700.98, 38, 0x0000000000000004'
	echo '2026/11/26 17:16:00.602, [N/A]'
	sleep 0.1
done`)
	if out, err := k.run(t, "A", "-networks", "1x16", "-batches", "1,2"); !strings.Contains(out, "1650  701  idle, power cap") {
		t.Errorf("%v\n%s", err, out)
	}
	rows, _, _ := readRows(k.out)
	rows = slices.DeleteFunc(rows, func(x row) bool { return x.Part == "runtime" }) // which has no such rows here
	want := &clock{MHz: 1650, Watts: 700.98, Reasons: []string{"idle", "power cap"}}
	if diff := cmp.Diff(want, rows[len(rows)-1].Clocks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text, err := os.ReadFile(filepath.Join(k.out, "A.clocks.csv")); err != nil || strings.Count(string(text), "\n") < 10 {
		t.Errorf("%v: %s", err, text)
	}
	c := clocks{samples: []sample{{at: rows[0].Time}}}
	if got := c.since(rows[0].Time.Add(1)); got != nil {
		t.Errorf("no samples, but %v", got)
	}
}

// The peers come in the order of their cost, each over all networks, and what compiles has its largest batch first. A program that always
// fails is given up after two tries, with a row for each batch.
func TestGivesUp(t *testing.T) {
	k := newKit(t, "echo $network $batches $* >>$here/started; echo 'evald: no' >&2; exit 1")
	if _, err := k.run(t, "C"); err == nil {
		t.Error("no error")
	}
	started := string(gametest.Must(os.ReadFile(filepath.Join(k.folder, "started")))(t))
	var order []string
	for _, line := range strings.Split(started, "\n") {
		if words := strings.Fields(line); len(words) > 5 {
			order = append(order, words[0]+" "+words[1])
		}
	}
	lines := k.said(t)
	if len(lines) != 1+4*(4+4+4) || len(order) != 2*12 || order[0] != "6x64 1" || order[4] != "20x256 1" || order[6] != "6x64 16384" || order[7] != "6x64 1" || order[22] != "20x256 4096" {
		t.Errorf("started %q\n%s", order, strings.Join(lines, "\n"))
	}
	if last := lines[len(lines)-1]; last != "peers: 20x256 tensorrt fp16, batch 64: exit status 1: evald: no" {
		t.Errorf("the last row is %q", last)
	}
}

// What is not there is missing, which is no failure.
func TestMissing(t *testing.T) {
	k := newKit(t, `[ $peer = pytorch ] && { for n in $batches; do row $n; done; exit; }; echo "No module named 'tensorrt'" >&2; exit 1`)
	if out, err := k.run(t, "C", "-batches", "1,2", "-networks", "1x16"); err != nil || !strings.Contains(out, "peers of run C: 2 done, 0 failed, 6 missing") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Setenv("PATH", "/bin:/usr/bin")
	k = newKit(t, "for n in $batches; do row $n; done")
	if out, err := k.run(t, "B", "-networks", "1x16", "-batches", "1"); err != nil || !strings.Contains(out, "ncu: missing: not found in the PATH or in ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Run D solves positions, trains on the records that are complete, and brings the network back with its metrics and accuracy. If a step fails,
// the row says so, and the next step uses what there is. A second run trains on all that there is by then.
func TestTraining(t *testing.T) {
	const evald = `
command=$1
for word; do [ "$before" = -o ] && out=$word; before=$word; done
case $command in
positions) mkdir -p $out; touch $out/random-00000.parquet $out/random.txt; [ -z "$LABELS" ] && touch $out/random-00001.parquet; echo "$*" | cut -d' ' -f4-8; exit $LABELS ;;
train) [ -n "$MODULE" ] && { echo "No module named '$MODULE'" >&2; exit 1; }
	[ -e $out/metrics.jsonl ] && ! grep -q "words\":$#}" $out/metrics.jsonl && { echo "evald: $out: the run in this folder has other records" >&2; exit 1; }
	mkdir -p $out; echo '{"step":1}' >$out/metrics.jsonl; echo "{\"words\":$#}" >>$out/metrics.jsonl; touch $out/network.safetensors ;;
score) echo '{"good":0.5}' ;;
esac`
	for _, c := range []struct {
		env, out string
		want     []string
	}{
		{"", "3 done, 0 failed, 0 missing", []string{"training: labels", "training: 1x16", "training: accuracy of 1x16"}},
		{"LABELS=1", "2 done, 1 failed, 0 missing", []string{"training: labels: exit status 1:", "training: 1x16", "training: accuracy of 1x16: exit status 1:"}},
		{"MODULE=torch", "1 done, 0 failed, 2 missing", []string{"training: labels", "training: 1x16: exit status 1: No module named 'torch'", "training: accuracy of 1x16: there is no network"}},
	} {
		k := newKit(t, evald)
		k.tool(t, "nvidia-smi", "exit 1")
		run := k.command(t, "D", "-networks", "1x16", "-games", "64")
		run.Env = append(run.Env, c.env)
		text, err := run.CombinedOutput()
		failed := strings.Contains(c.out, "1 failed")
		if (err != nil) != failed || !failed && !strings.Contains(string(text), "training of run D: "+c.out) {
			t.Errorf("%s: %v\n%s", c.env, err, text)
		}
		rows := slices.DeleteFunc(k.said(t), func(row string) bool { return strings.HasPrefix(row, "clocks: ") })
		if diff := cmp.Diff(c.want, rows); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.env, diff)
		}
		if c.env == "LABELS=1" {
			if text, err := k.run(t, "D", "-networks", "1x16", "-games", "64"); err != nil || !strings.Contains(text, "training of run D: 3 done, 0 failed") {
				t.Errorf("a second run, which has more records: %v\n%s", err, text)
			}
		}
		if c.env != "" {
			continue
		}
		all, _, err := readRows(k.out)
		gametest.OK(t, err)
		var results []string
		for _, x := range all {
			if x.Part == "training" {
				results = append(results, string(x.Result))
			}
		}
		// The number of words: train, two files of records, and eight flags with a value each, and the flag of the folder.
		want := []string{`"--train --kinds random,plausible,openings --count 64"`, `{"words":15}`, `{"good":0.5}`}
		if diff := cmp.Diff(want, results); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
	}
}

// A step that hangs costs its limit, and the next ones are done. When the run's time is over the run ends, and the rows say what
// was not measured. What hung is killed.
func TestDeadlines(t *testing.T) {
	k := newKit(t, `for n in $batches; do [ $peer-$n = tensorrt-8 ] && sleep 1000; row $n; done`)
	if out, err := k.run(t, "C", "-networks", "6x64", "-batches", "1,8,64", "-step", "2s"); err == nil || !strings.Contains(out, "11 done, 1 failed") {
		t.Errorf("%v\n%s", err, out)
	}
	if lines := k.said(t); len(lines) != 13 || lines[12] != "peers: 6x64 tensorrt fp16, batch 8: it took longer than 2s" {
		t.Errorf("%q", lines)
	}
	k = newKit(t, "row 1; sleep 1000")
	if out, err := k.run(t, "C", "-networks", "6x64", "-batches", "1,8", "-time", "4s"); err == nil || !strings.Contains(out, "1 done, 7 failed") {
		t.Errorf("%v\n%s", err, out)
	}
	if lines := k.said(t); len(lines) != 9 || lines[8] != "peers: 6x64 tensorrt fp16, batch 1: its time in the run is over" {
		t.Errorf("%q", lines)
	}
}

// Networks whose compilation takes too long share the time, so that each has its first row.
func TestShares(t *testing.T) {
	k := newKit(t, `for n in $batches; do [ $n = 1 ] && sleep 1000; row $n; done`)
	if out, err := k.run(t, "C", "-peers", "pytorch-compile", "-networks", "1x16,2x16", "-batches", "1,8", "-time", "6s"); err == nil {
		t.Errorf("no error\n%s", out)
	}
	var done []string
	for _, line := range k.said(t) {
		if strings.HasSuffix(line, "batch 8") {
			done = append(done, line)
		}
	}
	if want := []string{"peers: 1x16 pytorch-compile fp16, batch 8", "peers: 2x16 pytorch-compile fp16, batch 8"}; !slices.Equal(done, want) {
		t.Errorf("the rows with a result are %q, want %q", done, want)
	}
}

// A run that is killed at any moment leaves all rows that it had named, and a table can be made of them. The program that it
// had started dies too. The next run appends to the same file, after a torn line.
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
		if lines := k.said(t); len(lines) < 4 || lines[3] != "peers: 1x16 pytorch fp16, batch 64" {
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
		if out, err := k.run(t, "C", "-batches", "1,8,64", "-networks", "1x16"); err != nil || !strings.Contains(out, "12 done, 0 failed") {
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
		{nil, "which run? canary, A, B, C, D or table"},
		{[]string{"E"}, `no run "E"`},
		{[]string{"A", "-batches", "1,x"}, `"x" is no size`},
		{[]string{"C", "-peers", "pytorch,tensorflow"}, `no program "tensorflow": pytorch, pytorch-compile, onnxruntime or tensorrt`},
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
