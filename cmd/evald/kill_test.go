package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/game/gametest"
)

// killable are the commands that write files. Each runs in a folder of its own, filled by prepareKills.
var killable = []struct{ name, args string }{
	{"eval", "eval positions.txt --backend bitsquares -o out.jsonl"},
	{"eval part", "eval positions.txt --backend bitsquares --part 1/3 -o out"},
	{"eval parquet", "eval positions.txt --backend bitsquares --format parquet -o out.parquet"},
	{"search", "search positions.txt --backend bitsquares --visits 40 -o out.jsonl"},
	{"solve", "solve small.txt --scores --format text -o exact.txt"},
	{"build-book", "solve --build-book out.book --rules 5x4x4 --plies 5"},
	{"pack-book", "solve --book packable.book --pack-book out.packed"},
	{"positions", "positions -o sets --rules 5x4x4 --count 150"},
	{"score", "score exact.set --backend bitsquares --visits 0,20 -o table.txt --plot plot.svg"},
	{"analyze", "analyze queries.jsonl --backend bitsquares -o out.jsonl"},
	{"match", "match random negamax uct:sims=60 --games 40 --rules 5x4x4 -o games.parquet --plot table.svg"},
	{"prove", "prove policy:model=bitsquares --rules 5x4x4 --side second -o proof"},
	{"selfplay", "selfplay --backend bitsquares --games 260 --rules 5x4x4 --visits 40 --fast-visits 10 --exact=100 --seed 3 -o run"},
	{"train", "train exact.set --task exact --network 1x8 --rules 5x4x4 --batch 64 --steps 60 --save 100ms --plot plot.svg -o run"},
	{"learn", "learn --rules 4x4x3 --network 1x8 --seed 2 --first-games 40 --games 30 --batch 64 --visits 8 --fast-visits 4 --gate-visits 4 " +
		"--gate-games 20 --opponent random --opponent-games 8 --positions 20 --generations 2 -o run"},
	{"learn games", "learn --rules 3x3x3free,4x4x3=2 --init my.safetensors --seed 2 --games 30 --batch 64 --visits 8 --gate-visits 4 " +
		"--gate-games 20 --opponent random --opponent-games 8 --positions 20 --generations 2 -o run"},
	{"pack", "kaggle pack --agent policy:model=bitsquares --binary program -o submission.tar.gz"},
	{"import", "model import my.safetensors --name mine --rules 7x6x4"},
}

// prepareKills writes the commands' input files into a folder.
func prepareKills(t *testing.T, dir string) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var positions, small, queries strings.Builder
	for i := range 3000 {
		var moves strings.Builder
		for range 1 + random.IntN(6) {
			moves.WriteString(strconv.Itoa(1 + random.IntN(7)))
		}
		fmt.Fprintln(&positions, moves.String())
		if i < 400 {
			fmt.Fprintf(&small, "4x4x4:%d%d%d\n", 1+random.IntN(4), 1+random.IntN(4), 1+random.IntN(4))
			fmt.Fprintf(&queries, `{"id":"%d","moves":%q,"visits":%d}`+"\n", i, moves.String(), 50+random.IntN(100))
		}
	}
	for name, text := range map[string]string{"positions.txt": positions.String(), "small.txt": small.String(), "queries.jsonl": queries.String()} {
		putFile(t, filepath.Join(dir, name), text)
	}
	must(t, "", "positions", "-o", dir, "--rules", "5x4x4", "--count", "200", "--kinds", "random")
	must(t, "", "solve", "--build-book", filepath.Join(dir, "packable.book"), "--rules", "5x4x4", "--plies", "6")
	must(t, "", "model", "export", "seeded-2x16", "-o", filepath.Join(dir, "my.safetensors"))
	// A small program for the archive, which plays its first move.
	putFile(t, filepath.Join(dir, "main.go"), "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\"{\\\"action\\\":3}\\n\") }\n")
	err := exec.Command("go", "build", "-o", filepath.Join(dir, "program"), filepath.Join(dir, "main.go")).Run()
	if err == nil {
		err = os.Rename(filepath.Join(dir, "random.txt"), filepath.Join(dir, "exact.set"))
	}
	gametest.OK(t, err)
}

// killedProgram is a command in a process of its own.
func killedProgram(dir, args string) *exec.Cmd {
	program := exec.Command(os.Args[0], strings.Fields(args)...)
	program.Dir = dir
	program.Env = append(os.Environ(), asProgram+"=1", "EVALD_MODELS="+filepath.Join(dir, "store"), "TMPDIR="+filepath.Join(dir, "tmp"))
	return program
}

// Commands are killed at random moments, repeatedly. The next run of the same command writes the same files as a run that
// was never killed, and no others. Each day has a third of the commands.
func TestKilledCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of runs")
	}
	want := 2 // kills of each command
	if gametest.Soak() {
		want = 70
	}
	prepared := t.TempDir()
	prepareKills(t, prepared)
	for i, c := range killable {
		if !gametest.Today(t, i, 3) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			fresh := func() string {
				dir := t.TempDir()
				gametest.OK(t, os.CopyFS(dir, os.DirFS(prepared)))
				gametest.OK(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o755))
				return dir
			}
			finish := func(dir string) map[string]string {
				if out, err := killedProgram(dir, c.args).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				return written(t, dir)
			}
			whole := fresh()
			start := time.Now()
			result := finish(whole)
			took := time.Since(start)
			random := rand.New(rand.NewPCG(7, uint64(i)))
			dir, killed, left, here := fresh(), 0, 0, 0
			for tries := 0; killed < want; tries++ {
				if tries > 20*want+20 {
					t.Fatalf("%d kills in %d tries", killed, tries)
				}
				program := killedProgram(dir, c.args)
				gametest.OK(t, program.Start())
				timer := time.AfterFunc(time.Duration(random.Float64()*float64(took)), func() { _ = program.Process.Kill() })
				done := program.Wait() == nil
				timer.Stop()
				if !done {
					killed, here = killed+1, here+1
					left += temporaries(t, dir)
				}
				if done || here == 5 || killed == want {
					if diff := cmp.Diff(result, finish(dir)); diff != "" {
						t.Fatalf("after %d kills (-never killed +killed):\n%s", here, diff)
					}
					dir, here = fresh(), 0
				}
			}
			t.Logf("%d kills of %v each; %d temporary files were left and are gone", killed, took.Round(time.Millisecond), left)
		})
	}
}

// temporaries returns how many files and folders have names that a complete run leaves none of.
func temporaries(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if name := filepath.Base(path); strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".part") || strings.HasSuffix(name, ".parts") || strings.HasSuffix(name, ".partial") || name == "lock" || name == "waiting.jsonl" {
			n++
		}
		return err
	})
	gametest.OK(t, err)
	return n
}

// byTheClock matches what differs between two runs of a command: durations and dates.
var byTheClock = regexp.MustCompile(`"(seconds|created|positions_per_second|crc32)": ?("[^"]*"|[0-9.e+-]+|\{[^}]*\})`)

// written returns the files of a folder without what depends on the clock.
func written(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			files[name] = "a folder"
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch base := filepath.Base(path); {
		case strings.HasPrefix(base, "events.out.tfevents."): // one per process
			return nil
		case base == "metrics.jsonl" || strings.HasPrefix(base, "generation") || base == "curves.svg" || base == "plot.svg" || base == "table.svg":
			text = steps(text) // a resumed run restarts its means
		case strings.HasSuffix(base, ".parquet") && !strings.HasPrefix(base, "games-") && !strings.HasPrefix(base, "mistakes-") && base != "out.parquet":
			games, err := parquet.ReadFile[arena.Game](path)
			if err != nil {
				return err
			}
			for i := range games {
				g := &games[i]
				g.FirstSeconds, g.SecondSeconds, g.FirstLongest, g.SecondLongest, g.FirstLate, g.SecondLate = 0, 0, 0, 0, 0, 0
			}
			text = fmt.Appendf(nil, "%+v", games)
		case base == "out.jsonl" && strings.Contains(string(text), `"id"`): // in the order in which searches ended
			lines := strings.SplitAfter(byTheClock.ReplaceAllString(string(text), ""), "\n")
			for _, line := range lines {
				files[name+" "+line] = ""
			}
			return nil
		}
		files[name] = byTheClock.ReplaceAllString(string(text), "")
		return nil
	})
	gametest.OK(t, err)
	return files
}

// steps returns the step and generation numbers in lines of metrics.
func steps(text []byte) (numbers []byte) {
	for line := range strings.Lines(string(text)) {
		var metrics struct{ Step, Generation int }
		if json.Unmarshal([]byte(line), &metrics) == nil {
			numbers = fmt.Appendln(numbers, metrics.Step, metrics.Generation)
		}
	}
	return numbers
}
