package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/train"
)

// trainTiny returns the arguments of a run that takes a moment.
func trainTiny(dir string, more ...string) []string {
	return append([]string{"train", "-o", dir, "--network", "1x4/4/6", "--batch", "32", "--steps", "8", "--threads", "1"}, more...)
}

func TestTrainGameover(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	picture := filepath.Join(t.TempDir(), "f.svg")
	args := trainTiny(dir, "--task", "gameover", "--test", "1024", "--plot", picture)
	status, out, stderr := evald(t, "", args...)
	if status != exitOK || !strings.HasPrefix(stderr, "evald train: 1x4/4/6, 7x6x4, from random positions; 8 steps of 32 positions") {
		t.Fatalf("status %d, errors %q", status, stderr)
	}
	want := regexp.MustCompile(`^network  \S+/run/network.safetensors
gameover  accuracy 0\.\d{6}, cross-entropy \d\.\d{6}
  not over     \d+ of 9\d\d right
  own win      \d+ of \d+ right
  other's win  \d+ of \d+ right
  draw         \d+ of \d+ right
$`)
	if !want.MatchString(out) {
		t.Errorf("output is %q", out)
	}
	n, err := net.ReadFile(filepath.Join(dir, train.NetworkFile))
	if err != nil || n.Config().String() != "1x4/4/6" {
		t.Errorf("network %v, error %v", n, err)
	}
	if about := n.Metadata["evald.training"]; !strings.Contains(about, `"task":"gameover"`) || !strings.HasSuffix(about, `"step":8}`) {
		t.Errorf("the network's file says of its training %q", about)
	}
	metrics, err := train.ReadMetrics(filepath.Join(dir, train.MetricsFile))
	if err != nil || len(metrics) != 8 || metrics[7].GameOver == nil || metrics[7].WDL != nil {
		t.Errorf("metrics %+v, error %v", metrics, err)
	}
	if svg := getFile(t, picture); !strings.Contains(string(svg), "gameover") {
		t.Errorf("the picture has no gameover: %.200s", svg)
	}
	status, again, stderr := evald(t, "", args...)
	if status != exitOK || again != out || !strings.Contains(stderr, "which has 8 steps") {
		t.Errorf("a second time: status %d, output %q, errors %q", status, again, stderr)
	}
	refuses(t, exitBadInput, "seed 0, and now it is 3", "", append(args, "--seed", "3")...)
}

// recordsFile writes a file of n records, of games of ten positions each. A heuristic answered every fourth record.
func recordsFile(t *testing.T, n int, change func(i int, r *record.Record)) string {
	t.Helper()
	b := game.MustBoard(game.Connect4)
	path := filepath.Join(t.TempDir(), "r.parquet")
	w, err := record.Create(path)
	gametest.OK(t, err)
	defer w.Abort()
	for i := range n {
		p, _, err := b.ParseMoves(strings.Repeat("1234567"[i%7:i%7+1], 1+i%5))
		gametest.OK(t, err)
		source := eval.Searched
		if i%4 == 0 {
			source = eval.Bitsquares
		}
		rec := record.Record{
			Rules: b.Rules(), Position: p, Visits: []uint32{0, 1, 2, 3, 2, 1, 0}, Ply: p.Plies(), Source: source, Z: int8(i%2*2 - 1), Weight: 1, Game: int64(i / 10),
		}
		if i%3 == 0 {
			rec.Z = 0
		}
		if change != nil {
			change(i, &rec)
		}
		gametest.OK(t, w.Write(&rec))
	}
	gametest.OK(t, w.Close())
	return path
}

func TestTrainRecords(t *testing.T) {
	path := recordsFile(t, 40, nil)
	dir := filepath.Join(t.TempDir(), "run")
	status, out, stderr := evald(t, "", trainTiny(dir, path, "--optimizer", "adamw")...)
	want := regexp.MustCompile(`^network  \S+/run/network.safetensors
            learned    loss  accuracy
       wdl       30  \d\.\d{4} +\d+\.\d\d%
    policy       30  \d\.\d{4} +\d+\.\d\d%
  gameover       30  \d\.\d{4} +\d+\.\d\d%
$`)
	if status != exitOK || !want.MatchString(out) || !strings.Contains(stderr, "from 40 records") ||
		!strings.Contains(stderr, "of 40 records 10 were answered by heuristics and teach nothing; with --heuristics they do") {
		t.Errorf("status %d, output %q, errors %q", status, out, stderr)
	}
	metrics, err := train.ReadMetrics(filepath.Join(dir, train.MetricsFile))
	if err != nil || len(metrics) != 8 || metrics[0].WDL == nil || metrics[0].Policy == nil || metrics[0].GameOver == nil || metrics[7].HeldOut != nil {
		t.Errorf("metrics %+v, error %v", metrics, err)
	}
	refuses(t, exitBadInput, "q_share 0, and now it is 0.5", "", trainTiny(dir, path, "--optimizer", "adamw", "--q-share", "0.5")...)
}

// Whole games are held out. The last table and the metrics have their losses, and the same ones if the command is repeated.
func TestTrainValidate(t *testing.T) {
	path := recordsFile(t, 400, nil)
	dir := filepath.Join(t.TempDir(), "run")
	args := trainTiny(dir, path, "--heuristics", "--validate", "0.25")
	status, out, stderr := evald(t, "", args...)
	held := regexp.MustCompile(`(\d+)0 records are held out`).FindStringSubmatch(stderr)
	if status != exitOK || held == nil {
		t.Fatalf("status %d, errors %q", status, stderr)
	}
	games, err := strconv.Atoi(held[1])
	if err != nil || games < 3 || games > 20 || !strings.Contains(stderr, fmt.Sprintf("from %d records", 400-10*games)) {
		t.Errorf("%d of 40 games are held out, error %v: %s", games, err, stderr)
	}
	row := fmt.Sprintf(` +%d  \d\.\d{4} +\d+\.\d\d%%  +%d  \d\.\d{4} +\d+\.\d\d%%\n`, 400-10*games, 10*games)
	want := regexp.MustCompile(`^network .*\n +learned +loss  accuracy  held out +loss  accuracy\n +wdl` + row + " +policy" + row + " +gameover" + row + "$")
	if !want.MatchString(out) {
		t.Errorf("output is %q", out)
	}
	metrics, err := train.ReadMetrics(filepath.Join(dir, train.MetricsFile))
	if err != nil || len(metrics) != 8 || metrics[6].HeldOut != nil || metrics[7].HeldOut == nil {
		t.Fatalf("metrics %+v, error %v", metrics, err)
	}
	for _, c := range metrics[7].HeldOut.Curves() {
		line := regexp.MustCompile(c.Name + ` .*`).FindString(out)
		if text := fmt.Sprintf("%d  %.4f  %8s", 10*games, c.Loss, fmt.Sprintf("%.2f%%", 100*c.Accuracy)); !strings.HasSuffix(line, text) {
			t.Errorf("the table has %q, the metrics %q", line, text)
		}
	}
	if again := must(t, "", args...); again != out {
		t.Errorf("a second time: %q, want %q", again, out)
	}
	// Another share also changes the number of records.
	refuses(t, exitBadInput, "the run has", "", trainTiny(dir, path, "--heuristics", "--validate", "0.5")...)
	other := filepath.Join(t.TempDir(), "run")
	must(t, "", trainTiny(other, path, "--heuristics")...)
	refuses(t, exitBadInput, "the run has records 400, and now it is", "", trainTiny(other, path, "--heuristics", "--validate", "0.25")...)
}

// train can learn from what solve writes, in both formats.
func TestTrainExact(t *testing.T) {
	var networks []string
	for _, format := range []string{"text", "jsonl"} {
		exact := must(t, "2252576253462244111563365343671351441\n7422341735647741166133573473242566\n23163416124767223154467471272416755633\n", "solve", "--scores", "--format", format)
		path, dir := filepath.Join(t.TempDir(), "exact"), filepath.Join(t.TempDir(), "run")
		putFile(t, path, exact)
		status, _, stderr := evald(t, "", trainTiny(dir, path, "--task", "exact", "--batch", "3")...)
		if status != exitOK || !strings.Contains(stderr, "from 3 solved positions; 8 steps") {
			t.Errorf("status %d, errors %q", status, stderr)
		}
		metrics, err := train.ReadMetrics(filepath.Join(dir, train.MetricsFile))
		if err != nil || len(metrics) != 8 || metrics[0].WDL == nil || metrics[0].Policy == nil || metrics[0].GameOver == nil {
			t.Errorf("metrics %+v, error %v", metrics, err)
		}
		network := getFile(t, filepath.Join(dir, train.NetworkFile))
		networks = append(networks, string(network))
	}
	if networks[0] != networks[1] {
		t.Error("scores as text and as JSON give different networks")
	}
}

// Commands that are interrupted before they begin keep what the next run resumes.
func TestInterruptedAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	for says, c := range map[string]struct {
		args []string
		file string
		left bool
	}{
		"interrupted after 0 of 8 steps; the same command resumes it": {trainTiny(dir, "--task", "gameover"), train.CheckpointFile, true},
		"interrupted; the same command resumes it":                    {[]string{"solve", "--build-book", filepath.Join(dir, "book"), "--plies", "1"}, "book", false},
	} {
		var stderr strings.Builder
		status := run(ctx, c.args, streams{strings.NewReader(""), &stderr, &stderr})
		if status != exitInterrupted || !strings.Contains(stderr.String(), says) {
			t.Errorf("%v: status %d, errors %q, want %q", c.args, status, stderr.String(), says)
		}
		if _, err := os.Stat(filepath.Join(dir, c.file)); (err == nil) != c.left {
			t.Errorf("%s: %v", c.file, err)
		}
	}
}

// Wrong use has another status than bad files. Neither leaves a folder behind.
func TestTrainWrongUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	text := filepath.Join(t.TempDir(), "text")
	putFile(t, text, "44554\n")
	for want, args := range map[string][]string{
		"missing flags: --out":            {"train"},
		"--rules: rules \"7x6\"":          trainTiny(dir, "--task", "gameover", "--rules", "7x6"),
		"no files to learn":               trainTiny(dir),
		"leave the files out":             trainTiny(dir, "--task", "gameover", text),
		"leave --validate out":            trainTiny(dir, "--task", "gameover", "--validate", "0.1"),
		"--q-share NaN":                   trainTiny(dir, "--q-share", "NaN", text),
		"--network: network config \"6\"": trainTiny(dir, "--task", "gameover", "--network", "6"),
		"must be one of":                  trainTiny(dir, "--task", "chess"),
		"no such file":                    trainTiny(dir, text+".none"),
	} {
		refuses(t, exitUsage, want, "", args...)
	}
	records := recordsFile(t, 40, nil)
	alike := recordsFile(t, 40, func(_ int, r *record.Record) { r.Z = 1 })
	fast := recordsFile(t, 40, func(_ int, r *record.Record) { r.Visits = nil })
	other := recordsFile(t, 40, func(i int, r *record.Record) {
		if i == 39 {
			r.Rules.Columns, r.Position, r.Ply, r.Visits = 9, game.Position{}, 0, nil
		}
	})
	heuristic := recordsFile(t, 40, func(_ int, r *record.Record) { r.Source = eval.Bitsquares })
	one := recordsFile(t, 40, func(_ int, r *record.Record) { r.Game = 5 })
	played, learned, changed := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "changed")
	for path, text := range map[string]string{
		filepath.Join(played, "selfplay.json"): "{}", filepath.Join(learned, "config.json"): `{"rules": "7x6x4", "first_games": 12000}`,
	} {
		putFile(t, path, text)
	}
	must(t, "", trainTiny(changed, records)...)
	for want, args := range map[string][]string{
		"records " + text + ": is not Parquet: give records of evald selfplay, or --task exact": trainTiny(dir, text),
		"scores " + text: trainTiny(dir, "--task", "exact", text),
		"exact scores " + records + ": is Parquet: ": trainTiny(dir, "--task", "exact", records),
		"--init: " + text: trainTiny(dir, "--task", "gameover", "--init", text),
		"seeded-2x16.safetensors: network 2x16/8/16 cannot become 1x4/4/6":                                                                     trainTiny(dir, records, "--init", shippedModel),
		"not a directory: name another folder":                                                                                                 trainTiny(text, "--task", "gameover"),
		"there are none: give other files":                                                                                                     trainTiny(dir, recordsFile(t, 0, nil)),
		"records " + other + ": row 39 is of 9x6x4, and the run is one of 7x6x4":                                                               trainTiny(dir, records, other),
		"row 0 is of 7x6x4, and the run is one of 5x4x4":                                                                                       trainTiny(dir, records, "--rules", "5x4x4"),
		alike + ": column z: all 30 records that count ended alike":                                                                            trainTiny(dir, alike),
		fast + " and 1 more: column visits: none of the 60 records":                                                                            trainTiny(dir, fast, fast),
		"of 40 none counts: 40 were answered by heuristics":                                                                                    trainTiny(dir, heuristic),
		"--batch 41: " + records + ": there are only 40 records":                                                                               trainTiny(dir, records, "--batch", "41"),
		"with a share of 0.5 held out, of the 30 that count":                                                                                   trainTiny(dir, one, "--validate", "0.5"),
		"with a share of 0.0001 held out, of the 30 that count 30 are learned from and 0 held out":                                             trainTiny(dir, records, "--validate", "0.0001"),
		played + ": has records of evald selfplay: name another folder":                                                                        trainTiny(played, records),
		filepath.Join(learned, "config.json") + `: json: unknown field "first_games": it is damaged or another version's, name another folder`: trainTiny(learned, records),
		"the run has steps 8, and now it is 9: give the same again, or name another folder":                                                    trainTiny(changed, records, "--steps", "9"),
	} {
		refuses(t, exitBadInput, want, "", args...)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was refused has left a folder: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(learned, "config.json")); err != nil || !strings.Contains(string(text), "first_games") {
		t.Errorf("another run's configuration has become %q, error %v", text, err)
	}
}

// The same command trains a network of pattern tables and resumes it after an interruption, and the network evaluates.
func TestTrainTables(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	records := recordsFile(t, 600, func(_ int, r *record.Record) { r.Source = eval.Solved })
	picture := filepath.Join(t.TempDir(), "f.svg")
	args := []string{"train", records, "-o", dir, "--network", "pattern64x16x16", "--batch", "32", "--steps", "20", "--validate", "0.2", "--plot", picture}
	status, out, stderr := evald(t, "", args...)
	if status != exitOK || !strings.HasPrefix(stderr, "evald train: pattern64x16x16, 7x6x4, from ") || !strings.Contains(stderr, "; adam, rate 0.001, cosine after 1 steps") {
		t.Fatalf("status %d, errors %q", status, stderr)
	}
	if !regexp.MustCompile(`^network  \S+/run/network.safetensors\n +learned +loss +accuracy +held out +loss +accuracy\n +wdl +\d+ .*\n +policy +\d+ .*\n$`).MatchString(out) {
		t.Errorf("output is %q", out)
	}
	if metrics, err := train.ReadMetrics(filepath.Join(dir, train.MetricsFile)); err != nil || len(metrics) != 20 || metrics[19].HeldOut == nil || metrics[19].GameOver != nil {
		t.Errorf("metrics %+v, error %v", metrics, err)
	}
	if svg := getFile(t, picture); !strings.Contains(string(svg), "policy") {
		t.Errorf("the picture has no policy: %.200s", svg)
	}
	if status, again, stderr := evald(t, "", args...); status != exitOK || again != out || !strings.Contains(stderr, "which has 20 steps") {
		t.Errorf("a second time: status %d, output %q, errors %q", status, again, stderr)
	}
	network := filepath.Join(dir, train.NetworkFile)
	if status, out, stderr := evald(t, "445\n", "eval", "--model", network); status != exitOK || !strings.Contains(out, `"source":"fast","model":"network"`) {
		t.Errorf("eval: status %d, output %q, errors %q", status, out, stderr)
	}
	further := []string{"train", records, "-o", filepath.Join(t.TempDir(), "next"), "--network", "pattern64x16x16", "--batch", "32", "--steps", "2", "--init", network}
	must(t, "", further...)
	for _, c := range []struct{ more, want string }{
		{"--optimizer adamw", "--optimizer does nothing for networks of pattern tables"},
		{"--ema 0.9", "--ema does nothing"},
		{"--network pattern64x16", `--network: shape "pattern64x16": want lanes and two hidden layers`},
		{"--network pattern96x16x16 --init " + network, "the initial network is pattern64x16x16, and the run trains pattern96x16x16"},
		{"--init " + shippedModel, "seeded-2x16.safetensors: parse pattern network: header: tensor"},
	} {
		args := append([]string{"train", records, "-o", filepath.Join(t.TempDir(), "wrong"), "--network", "pattern64x16x16", "--batch", "32"}, strings.Fields(c.more)...)
		if status, _, stderr := evald(t, "", args...); status == exitOK || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, errors %q, want %q", c.more, status, stderr, c.want)
		}
	}
}

// A run learns several games, each from its own files. Held-out records of each are measured, and the results of each are shown. The plain
// Go reference reads the network.
func TestTrainMix(t *testing.T) {
	files := map[string]string{}
	for _, rules := range []string{"5x4x4", "4x4x3", "3x3x3free"} {
		dir := t.TempDir()
		must(t, "", "positions", "-o", dir, "--train", "--rules", rules, "--kinds", "random", "--count", "10", "--seed", "5")
		files[rules] = filepath.Join(dir, "random-00000.parquet")
	}
	dir := filepath.Join(t.TempDir(), "run")
	args := trainTiny(dir, "--rules", "5x4x4,3x3x3free=0.5", "--validate", "0.2", files["3x3x3free"], files["5x4x4"])
	status, out, stderr := evald(t, "", args...)
	if status != exitOK || !strings.HasPrefix(stderr, "evald train: 1x4/4/6, 5x4x4,3x3x3free=0.5, from ") {
		t.Fatalf("status %d, errors %q", status, stderr)
	}
	table := `\n *learned +loss +accuracy +held out +loss +accuracy\n( +(wdl|policy|gameover) .*%\n){3}`
	if !regexp.MustCompile(`^network  \S+\n5x4x4` + table + `3x3x3free` + table + `$`).MatchString(out) {
		t.Errorf("output %q", out)
	}
	metrics := gametest.Must(train.ReadMetrics(filepath.Join(dir, train.MetricsFile)))(t)
	last := metrics[len(metrics)-1]
	for _, rules := range []string{"5x4x4", "3x3x3free"} {
		if h, ok := last.Games[rules]; !ok || h.Policy == nil || h.WDL == nil {
			t.Errorf("the last line of the metrics has of %s: %+v", rules, h)
		}
	}
	n := gametest.Must(net.ReadFile(filepath.Join(dir, train.NetworkFile)))(t)
	if about := n.Metadata["evald.training"]; !strings.Contains(about, `"rules":"5x4x4,3x3x3free=0.5"`) {
		t.Errorf("the network's file says of its training %q", about)
	}
	other := filepath.Join(t.TempDir(), "other")
	for want, args := range map[string][]string{
		"no file has records of 4x4x3":                           trainTiny(other, "--rules", "5x4x4,4x4x3", files["5x4x4"]),
		": is of 4x4x3, and --rules is 5x4x4,3x3x3free":          trainTiny(other, "--rules", "5x4x4,3x3x3free", files["5x4x4"], files["4x4x3"]),
		"networks of pattern tables know 7x6x4 alone":            {"train", "-o", other, "--network", "pattern64x16x16", "--rules", "5x4x4,3x3x3free", files["5x4x4"], files["3x3x3free"]},
		"5x4x4 is there twice":                                   trainTiny(other, "--rules", "5x4x4,5x4x4", files["5x4x4"]),
		`the run has rules "5x4x4,3x3x3free=0.5", and now it`:    trainTiny(dir, "--rules", "5x4x4,3x3x3free", "--validate", "0.2", files["3x3x3free"], files["5x4x4"]),
		"share \"0\": must be a number of 0.000001 to 1000000, ": trainTiny(other, "--rules", "5x4x4=0,3x3x3free", files["5x4x4"]),
	} {
		if status, _, stderr := evald(t, "", args...); status == exitOK || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, errors %q, want %q", args, status, stderr, want)
		}
	}
}
