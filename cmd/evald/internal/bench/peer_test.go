package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/net"
)

func smallNetwork(t *testing.T) *net.Network {
	t.Helper()
	return gametest.Must(net.NewScrambled(net.Config{Blocks: 2, Channels: 16, HeadChannels: 8, Hidden: 16}, 1))(t)
}

func smallPeers(t *testing.T, python string, libraries ...string) (*PeerReport, error) {
	t.Helper()
	return Peers(t.Context(), time.Millisecond, smallNetwork(t), "small", python, libraries, nil)
}

// Each library computes the same in float32, or there would be an error, and nearly the same in fewer bits. Every contender
// has a rate at every size of batches.
func TestPeers(t *testing.T) {
	python := gametest.Python(t, "onnxruntime")
	for library, precisions := range map[string][]string{"onnxruntime": {"f32", "int8"}, "openvino": {"f32", "bf16", "int8"}} {
		t.Run(library, func(t *testing.T) {
			if library == "openvino" {
				gametest.Framework(t, "openvino", "nncf")
			}
			r := gametest.Must(smallPeers(t, python, library))(t)
			if len(r.Settings) != 1 || !strings.HasPrefix(r.Settings[0], library+" ") || !strings.Contains(r.Settings[0], fmt.Sprintf("=%d, ", r.Threads)) {
				t.Errorf("settings %q, want the library and its %d threads", r.Settings, r.Threads)
			}
			exact := 0.0
			var got []string
			for i, c := range r.Contenders {
				checkRates(t, c, i == 0)
				name, precision, _ := strings.Cut(c.Name, " ")
				if name != library {
					continue
				}
				got = append(got, precision)
				if precision == "f32" {
					exact = c.WDLMost
				} else if c.WDLMost <= exact || c.WDLMost > 0.2 || c.WDL99 > c.WDLMost {
					t.Errorf("%s is off by %+v, want more than float32's %v and not much", c.Name, c.Difference, exact)
				}
			}
			if strings.Contains(r.Settings[0], "no bf16 on this processor") {
				precisions = []string{"f32", "int8"}
			}
			if !slices.Equal(got, precisions) {
				t.Errorf("precisions %v, want %v", got, precisions)
			}
		})
	}
}

func checkRates(t *testing.T, c Contender, first bool) {
	t.Helper()
	if len(c.Rates) != len(peerBatches) {
		t.Fatalf("%s has %d rates, want %d", c.Name, len(c.Rates), len(peerBatches))
	}
	for i, r := range c.Rates {
		if r.Batch != peerBatches[i] || r.Rate <= 0 || r.Least <= 0 || r.Least > r.Ratio || r.Ratio > r.Most || first && r.Least != r.Most {
			t.Errorf("%s: %+v", c.Name, r)
		}
	}
}

// fakePython is a program that stands for Python and runs this script of a shell, which may read the files.
func fakePython(t *testing.T, script string, files map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		text := gametest.Must(json.Marshal(content))(t)
		gametest.OK(t, os.WriteFile(filepath.Join(dir, name), append(text, '\n'), 0o600))
	}
	fake := filepath.Join(dir, "python")
	gametest.OK(t, os.WriteFile(fake, []byte("#!/bin/sh\nfiles="+dir+"\n"+script+"\n"), 0o700))
	return fake
}

// A peer is started with the network and the positions of the same shape, and the report has its rates, and its answers'
// differences from the reference's.
func TestPeersReport(t *testing.T) {
	if testing.Short() {
		t.Skip("the reference of some hundred positions, which the race detector makes slow")
	}
	board := game.MustBoard(game.Connect4)
	calibration, positions, err := plausiblePositions(t.Context(), board)
	gametest.OK(t, err)
	if len(calibration) != peerPositions || len(positions) != peerPositions || slices.ContainsFunc(positions, func(p game.Position) bool { return slices.Contains(calibration, p) }) {
		t.Errorf("%d positions to calibrate and %d to compare, want %d each and no position twice", len(calibration), len(positions), peerPositions)
	}
	right := newBatch(board, positions, len(positions))
	gametest.OK(t, net.NewBackend(smallNetwork(t)).Compute(t.Context(), right))
	type answer map[string]any
	other := slices.Clone(right.WDL)
	for i := range 7 {
		other[3*i] += 0.25 // so the 99th percentile of 300, which leaves three out, is one of them
	}
	moves := slices.Clone(right.Policy)
	row := moves[7*5 : 7*6]
	row[slices.Index(row, slices.Min(row))] = 1
	python := fakePython(t, `
		[ "$*" = "peer.py onnxruntime network.onnx 6 7 $(cat $files/threads) calibration positions" ] || { echo >&2 "arguments $*"; exit 1; }
		[ $(wc -c <calibration) = 252000 ] && [ $(wc -c <positions) = 252000 ] || { echo >&2 "sizes $(wc -c calibration positions)"; exit 1; }
		cat $files/first
		while read -r line; do
			case $line in
			*batch*) echo '{"rate": 12.5}';;
			*int8*) cat $files/int8;;
			*) cat $files/f32;;
			esac
		done`, map[string]any{
		"threads": runtime.GOMAXPROCS(0),
		"first":   answer{"version": "9.9", "settings": "as ever", "precisions": []string{"f32", "int8"}},
		"f32":     answer{"wdl": right.WDL, "policy": right.Policy},
		"int8":    answer{"wdl": other, "policy": moves},
	})
	r := gametest.Must(smallPeers(t, python, "onnxruntime"))(t)
	if diff := cmp.Diff([]string{"onnxruntime 9.9: as ever"}, r.Settings); diff != "" {
		t.Error(diff)
	}
	peers := r.Contenders[len(r.Contenders)-2:]
	for _, c := range peers {
		checkRates(t, c, false)
		if c.Rates[0].Rate != 12.5 {
			t.Errorf("%s: rate %v, want 12.5", c.Name, c.Rates[0].Rate)
		}
	}
	if peers[0].Name != "onnxruntime f32" || peers[0].Difference != (Difference{}) {
		t.Errorf("%s is off by %+v, want nothing", peers[0].Name, peers[0].Difference)
	}
	got := peers[1].Difference
	if peers[1].Name != "onnxruntime int8" || max(got.WDLMost-0.25, 0.25-got.WDLMost) > 1e-6 || max(got.WDL99-0.25, 0.25-got.WDL99) > 1e-6 || got.Changed != 1./300 {
		t.Errorf("%s is off by %+v, want 0.25, and 1 of 300 moves", peers[1].Name, got)
	}
	if first := r.Contenders[0]; !strings.HasPrefix(first.Name, "evald ") || first.WDLMost > 0.02 {
		t.Errorf("the first contender is %+v, want ours", first)
	}
}

// A peer that dies (TestTorchFails has other ways to fail) or computes something else is an error that says so; nothing is left behind.
func TestPeersFail(t *testing.T) {
	if testing.Short() {
		t.Skip("the reference of some hundred positions, which the race detector makes slow")
	}
	first := `echo '{"version": "1", "settings": "", "precisions": ["f32"]}'; read line; `
	for name, c := range map[string]struct{ script, want string }{
		"dies":            {"echo >&2 Traceback; echo >&2 no onnxruntime here; exit 3", "exit status 3: no onnxruntime here (it needs onnxruntime"},
		"other sizes":     {first + `echo '{"wdl": [1, 2, 3]}'; cat`, "f32: 3 values of WDL, want 900"},
		"another network": {first + `echo '{"wdl": [9' $(yes ', 9' | head -899) ']}'; cat`, "f32: WDL 0 is 9, the reference says "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			_, err := smallPeers(t, fakePython(t, c.script, nil), "onnxruntime")
			if err == nil || !strings.Contains(err.Error(), "peer onnxruntime: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
			if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "evald-peer-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	if _, err := smallPeers(t, "/nowhere/python", "onnxruntime"); err == nil || !strings.Contains(err.Error(), "/nowhere/python") {
		t.Errorf("error %v, want one that names the missing Python", err)
	}
}

// A position counts once, by the worst of its three probabilities.
func TestDifference(t *testing.T) {
	board := game.MustBoard(game.Connect4)
	want := eval.NewBatch(board, 2)
	copy(want.WDL, []float32{1, 0, 0, 0.25, 0.5, 0.25})
	copy(want.Policy, []float32{1, 0, 0, 0, 0, 0, 0, 0, 0, 0.5, 0.5, 0, 0, 0})
	wdl := []float32{0.5, 0.25, 0.25, 0.25, 0.5, 0.25}
	policy := []float32{0, 1, 0, 0, 0, 0, 0, 0, 0, 0.5, 0.5, 0, 0, 0}
	if got := Compare(wdl, policy, want); got != (Difference{WDL99: 0.5, WDLMost: 0.5, Changed: 0.5}) {
		t.Errorf("%+v", got)
	}
	if got := Compare(want.WDL, want.Policy, want); got != (Difference{}) {
		t.Errorf("%+v for the same answers", got)
	}
}

func TestPeerTable(t *testing.T) {
	rates := func(rate, ratio float64) []PeerRate {
		return []PeerRate{{Batch: 1, Rate: rate, Ratio: ratio, Least: ratio / 2, Most: ratio * 2}, {Batch: 256, Rate: 8 * rate, Ratio: ratio, Least: ratio, Most: ratio}}
	}
	var w strings.Builder
	err := PeerTable(&w, &PeerReport{Network: "small", Threads: 2, Positions: 300, Settings: []string{"openvino 9: x=1"}, Contenders: []Contender{
		{Name: "evald avx512", Rates: rates(1000, 1)},
		{Name: "openvino int8", Rates: rates(2500, 2.5), Difference: Difference{WDL99: 0.125, WDLMost: 0.5, Changed: 0.01}},
	}})
	want := `
network small, threads: 2. Positions a second at each size of batches, and times evald avx512 (least-most of 5 rounds).
Off: the difference from the float32 reference on 300 positions, in win-draw-loss, and the best moves that changed.
openvino 9: x=1

contender      batch 1                    batch 256                    off at 99%  at most  moves
evald avx512   1 k      1.00 (0.50-2.00)  8 k        1.00 (1.00-1.00)  0.0000      0.0000   0.0%
openvino int8  2.5 k    2.50 (1.25-5.00)  20 k       2.50 (2.50-2.50)  0.1250      0.5000   1.0%
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), w.String()); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
