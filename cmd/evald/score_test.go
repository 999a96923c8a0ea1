package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/nn/open"
)

// smallSets makes sets of small games, two of them of the mix unseen, in the folder sets of a new working directory.
func smallSets(t *testing.T) (files []string) {
	t.Helper()
	t.Chdir(t.TempDir())
	must(t, "", "positions", "-o", "sets", "--rules", "4x4x4,4x4x3free,4x4x3,5x6x4,6x5x3,5x4x4", "--nodes", "3000", "--count", "12", "--kinds", "random,openings")
	return gametest.Must(filepath.Glob("sets/*/*.txt"))(t)
}

// tiny are the flags of a network that answers alike on every machine.
var tiny = []string{"--model", "seeded-2x16", "--backend", "cpu", "--cpu-path", "go"}

// measuredJSON runs score and reads its JSON.
func measuredJSON(t *testing.T, args ...string) (reports []namedReport) {
	t.Helper()
	out := must(t, "", slices.Concat([]string{"score", "--json"}, args)...)
	gametest.OK(t, json.Unmarshal([]byte(out), &reports))
	return reports
}

// The JSON has the figures that a loop over single positions finds, with any number of threads.
func TestScoreBoards(t *testing.T) {
	files := smallSets(t)
	args := slices.Concat(files, tiny, []string{"--visits", "0,10"})
	reports := measuredJSON(t, append(args, "--threads", "1")...)
	again := measuredJSON(t, append(args, "--threads", "3")...)
	if fmt.Sprint(reports) != fmt.Sprint(again) {
		t.Error("the figures depend on the number of threads")
	}
	var names []string
	for _, r := range reports {
		names = append(names, r.Model)
	}
	if got := strings.Join(names, "; "); got != "seeded-2x16; seeded-2x16, puct of 10 visits" {
		t.Fatalf("the reports are of %s", got)
	}
	for column, o := range map[int]open.Options{0: {Model: "seeded-2x16", Backend: "cpu", CPUPath: "go"}} {
		e := gametest.Must(open.Open(o))(t)
		defer e.Close()
		for _, b := range reports[column].Boards {
			var sums [3]float64
			n, critical := 0, 0
			for _, file := range gametest.Must(filepath.Glob("sets/" + b.Name + "/*.txt"))(t) {
				for _, p := range gametest.Must(score.Read(bytes.NewReader(getFile(t, file))))(t) {
					good, mayFail, foretold := slowly(t, e.Evaluator, p)
					n, sums[0], sums[2] = n+1, sums[0]+good, sums[2]+foretold
					if mayFail {
						critical, sums[1] = critical+1, sums[1]+good
					}
				}
			}
			want := [3]float64{sums[0] / float64(n), sums[1] / float64(max(1, critical)), sums[2] / float64(n)}
			got := [3]float64{b.Good.Value, b.CriticalGood.Value, b.ValueSign.Value}
			for k := range want {
				if math.Abs(want[k]-got[k]) > 1e-9 || b.Positions != n || b.Critical != critical {
					t.Errorf("%s, %s: rates %v, want %v", names[column], b.Name, got, want)
				}
			}
		}
	}
	// What the files say of positions that are missing.
	for _, b := range reports[0].Boards {
		drawn, solved := 0, 0
		for _, third := range b.Solved {
			drawn, solved = drawn+third.Drawn, solved+third.Solved
		}
		if whole := b.Name != "5x6x4" && b.Name != "5x4x4"; whole != (b.Solved == nil) || !whole && (drawn != 24 || solved != b.Positions) {
			t.Errorf("%s: of %d drawn positions %d are solved, %d measured", b.Name, drawn, solved, b.Positions)
		}
	}
}

// slowly asks about one position alone.
func slowly(t *testing.T, e *eval.Evaluator, p score.Position) (good float64, critical bool, foretold float64) {
	t.Helper()
	batch := eval.NewBatch(p.State.Board, 1)
	batch.Pos[0] = p.State.Position
	gametest.OK(t, e.Evaluate(t.Context(), batch))
	sign := func(s int) int { return min(1, max(-1, s)) }
	result := sign(slices.Max(p.Scores))
	var best []int // the likeliest legal moves
	for a, s := range p.Scores {
		if s == -1000 {
			continue
		}
		critical = critical || sign(s) != result
		if len(best) > 0 && batch.Policy[a] > batch.Policy[best[0]] {
			best = nil
		}
		if len(best) == 0 || batch.Policy[a] == batch.Policy[best[0]] {
			best = append(best, a)
		}
	}
	for _, a := range best {
		if sign(p.Scores[a]) == result {
			good += 1 / float64(len(best))
		}
	}
	most := slices.Max(batch.WDL)
	alike := 0.
	for _, x := range batch.WDL {
		if x == most {
			alike++
		}
	}
	if batch.WDL[1-result] == most {
		foretold = 1 / alike
	}
	return good, critical, foretold
}

func TestScoreBoardsErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	const one = "4x4x4:- 0 0 0 0\n"
	for text, want := range map[string]string{
		"4x4x99:- 0 0 0 0\n": "line 1: ",
		"# nothing\n":        "no positions",
		one + "# of 3 positions of 0 stones, 2 take more nodes and are left out, or so\n":                                                            "line 2: ",
		one + "# of 3 positions of 0 stones, x take more nodes and are left out\n":                                                                   "is damaged: want # of N positions",
		one + "# of 3 positions of 0 stones, 4 take more nodes and are left out\n":                                                                   "is damaged: want # of N positions",
		one + "# of 3 positions of 0 stones, 1 take more nodes and are left out\n":                                                                   "it has 1 positions of 0 stones, but says that of 3, 1 are left out",
		one + "# of 3 positions of 99 stones, 1 take more nodes and are left out\n":                                                                  "it has 0 positions of 99 stones",
		one + "4x4x3:- 1 1 1 1\n# of 3 positions of 0 stones, 1 take more nodes and are left out\n":                                                  "positions of 2 games",
		one + "# of 3 positions of 0 stones, 2 take more nodes and are left out\n# of 3 positions of 0 stones, 2 take more nodes and are left out\n": "a line before it is of 0 stones",
	} {
		putFile(t, "x.txt", text)
		refuses(t, exitBadInput, want, "", "score", "x.txt", "--backend", "bitsquares")
	}
	putFile(t, "x.txt", one+"# of 3 positions of 0 stones, 2 take more nodes and are left out\n")
	b := measuredJSON(t, "x.txt", "--backend", "bitsquares")[0].Boards[0]
	if b.Name != "4x4x4" || b.Positions != 1 || len(b.Solved) != 3 || b.Solved[0].Drawn != 3 || b.Solved[0].Solved != 1 {
		t.Errorf("%+v", b)
	}
}

// --all measures every position of small games, and its report is the one of a file that has them all with the solver's scores. A sample has
// the number of positions that was asked for.
func TestScoreAll(t *testing.T) {
	testdata := gametest.Must(filepath.Abs("testdata"))(t)
	t.Chdir(t.TempDir())
	args := slices.Concat([]string{"--all", "4x3x3,3x3x3free"}, tiny, []string{"--visits", "0,5"})
	reports := measuredJSON(t, append(args, "--threads", "1")...)
	if again := measuredJSON(t, append(args, "--threads", "3")...); fmt.Sprint(reports) != fmt.Sprint(again) {
		t.Error("the figures depend on the number of threads")
	}
	for n, b := range reports[0].Boards {
		board := gametest.Must(boardOf(b.Name))(t)
		var moves []string // to each position, one of its mirror images
		found := map[game.Position]bool{}
		var play func(p game.Position, played []int)
		play = func(p game.Position, played []int) {
			key, _ := board.Canonical(p)
			if board.Result(p) != game.Ongoing || found[key] {
				return
			}
			found[key] = true
			moves = append(moves, game.FormatNotation(board.Rules(), played))
			for a := range board.Actions() {
				if board.CanPlay(p, a) {
					play(board.Play(p, a), append(slices.Clone(played), a))
				}
			}
		}
		play(game.Position{}, nil)
		lines := must(t, strings.Join(moves, "\n")+"\n", "solve", "--scores", "--format", "text")
		putFile(t, "all.txt", lines)
		want := measuredJSON(t, slices.Concat([]string{"all.txt"}, tiny)...)[0].Boards[0]
		// Of a position and its mirror image, the file may have the other one: the network is asked about another board.
		if b.Positions != len(moves) || want.Positions != len(moves) || b.Critical != want.Critical || b.Decisive != want.Decisive || math.Abs(b.Good.Value-want.Good.Value) > 0.05 {
			t.Errorf("%s, board %d: %+v, want %+v", b.Name, n, b.Summary, want.Summary)
		}
		sum := 0
		for _, s := range b.Stones {
			sum += s.Positions
		}
		if sum != b.Positions || b.Stones[0].Name != "stones 0" || b.Stones[0].Positions != 1 {
			t.Errorf("%s by stones: %d positions, first %+v", b.Name, sum, b.Stones[0])
		}
	}
	t.Chdir(filepath.Dir(testdata))
	golden(t, "score_all.txt", must(t, "", "score", "--all", "4x3x3,3x3x3free", "--backend", "bitsquares"))
	some := measuredJSON(t, "--all", "7x6x5", "--sample", "20", "--backend", "bitsquares")[0]
	other := measuredJSON(t, "--all", "7x6x5", "--sample", "20", "--seed", "2", "--backend", "bitsquares")[0]
	if some.All.Positions != 20 || other.All.Positions != 20 || fmt.Sprint(some.All) == fmt.Sprint(other.All) {
		t.Errorf("a sample of 20: %+v, and by another seed %+v", some.All, other.All)
	}
	for args, want := range map[string]string{
		"--all 4x4x4 --sample 0": "--sample 0: must be 1 to 10000000",
		"--all 4x4x9":            "--all: ",
		"x.txt --all 4x4x4":      "--all does nothing with FILE",
		"x.txt --sample 5":       "--sample does nothing without --all",
		"--all 4x4x4 --seed 3":   "--seed does nothing without --sample",
		"":                       "or --all with games",
	} {
		refuses(t, exitUsage, want, "", append([]string{"score", "--backend", "bitsquares"}, strings.Fields(args)...)...)
	}
	refuses(t, exitBadInput, "give --sample 1000000", "", "score", "--backend", "bitsquares", "--all", "6x6x5free")
}

// An interrupt ends --all while it finds or draws positions. There is no table then.
func TestScoreAllInterrupted(t *testing.T) {
	for _, args := range []string{"--all 5x5x4", "--all 7x6x4 --sample 10000000"} {
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(300*time.Millisecond, cancel)
		var out, stderr bytes.Buffer
		status := run(ctx, strings.Fields("score --backend bitsquares "+args), streams{strings.NewReader(""), &out, &stderr})
		timer.Stop()
		if status != exitInterrupted || out.Len() > 0 || !strings.Contains(stderr.String(), "interrupted; 0 positions were measured") {
			t.Errorf("%s: status %d, output %q, errors %q", args, status, out.String(), stderr.String())
		}
	}
}

// The rows are what the table has the means of, and those of the parts of a file are those of one run. Lines count from the file's beginning,
// and the file's checksum, which is of all lines, does not matter to a part.
func TestScoreRows(t *testing.T) {
	dir := t.TempDir()
	must(t, "", positionsIn(dir, "--count", "60", "--kinds", "random")...)
	file := filepath.Join(dir, "random.txt")
	for name, args := range map[string][]string{"policy": {"--backend", "bitsquares"}, "search": {"--backend", "bitsquares", "--visits", "20"}, "agent": {"--agent", "policy:model=bitsquares"}} {
		t.Run(name, func(t *testing.T) {
			want := measuredJSON(t, append(args, file)...)[0].All
			args = append([]string{"score", file, "--rows"}, args...)
			whole := must(t, "", args...)
			var n, critical int
			var sum scoreRow
			result, brier := 0., 0.
			for text := range strings.SplitSeq(strings.TrimSpace(whole), "\n") {
				var row scoreRow
				gametest.OK(t, json.Unmarshal([]byte(text), &row))
				if n++; row.Line != n+1 { // the first line is a comment
					t.Errorf("row %d is of line %d", n, row.Line)
				}
				if row.Critical {
					critical++
				}
				sum.Perfect, sum.Good, sum.Regret = sum.Perfect+row.Perfect, sum.Good+row.Good, sum.Regret+row.Regret
				if (row.Result == nil) != (name == "agent") || (row.Brier == nil) != (name == "agent") {
					t.Fatalf("row %d: %s", n, text)
				}
				if row.Result != nil {
					result, brier = result+*row.Result, brier+*row.Brier
				}
			}
			got := []float64{sum.Perfect, sum.Good, sum.Regret, result, brier}
			for i, m := range []score.Mean{want.Perfect, want.Good, want.Regret, want.ValueSign, want.Brier} {
				if math.Abs(got[i]/float64(n)-m.Value) > 1e-9 {
					t.Errorf("column %d: mean %v of the rows, %v in the table", i, got[i]/float64(n), m.Value)
				}
			}
			if n != want.Positions || critical != want.Critical {
				t.Errorf("%d rows, %d critical, want %d and %d", n, critical, want.Positions, want.Critical)
			}
			var parts strings.Builder
			for i := range 5 {
				out := filepath.Join(t.TempDir(), "parts")
				must(t, "", append(args, "--part", fmt.Sprintf("%d/5", i), "-o", out)...)
				parts.Write(getFile(t, filepath.Join(out, fmt.Sprintf("part-%d-of-5.jsonl", i))))
			}
			if d := cmp.Diff(whole, parts.String()); d != "" {
				t.Errorf("one run and five parts:\n%s", d)
			}
		})
	}
	for _, args := range []string{"--visits 0,5", "--json", "--plot x.svg"} {
		refuses(t, exitUsage, "--rows", "", append([]string{"score", file, "--rows"}, strings.Fields(args)...)...)
	}
	refuses(t, exitUsage, "--part is taken with --rows", "", "score", file, "--part", "0/2", "-o", dir)
	putFile(t, file, string(getFile(t, file))+"4x4x4:9 1\n")
	refuses(t, exitBadInput, "line 62: ", "", "score", file, "--rows", "--backend", "bitsquares", "--part", "4/5", "-o", filepath.Join(dir, "parts"))
}
