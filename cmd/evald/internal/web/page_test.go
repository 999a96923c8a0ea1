package web

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// A game of two people by clicks, to its end and back again.
func TestPageClicks(t *testing.T) {
	b := open(t, Config{Limits: Limits{Time: time.Second / 10}}, "/")
	b.says("#status", "Red to move: you")
	b.choose("side", "both")
	for i, action := range []int{0, 1, 0, 1, 0, 1, 0} {
		b.click(column(action))
		b.says("#moves, #status", fmt.Sprintf("%s played %d. ", []string{"Red", "Yellow"}[i%2], action+1))
	}
	b.says("#status", "Red played 1. Red wins")
	b.picture("won")
	if got := b.position(); got != "7x6x4:1212121" {
		t.Errorf("the address ends in %q", got)
	}
	if got := valueOf[int](b, "document.querySelectorAll('.won').length"); got != 4 {
		t.Errorf("%d stones are marked as winning", got)
	}
	b.click(column(3)) // has no effect: the game is over
	b.click("#undo")
	b.says("#status", "Yellow played 2. Red to move")
	b.click("#undo")
	b.says("#status", "Red played 1. Yellow to move")
	b.click("#redo")
	b.says("#status", "Yellow played 2. Red to move")
	b.click(column(6))
	b.says("#status", "Red played 7. Yellow to move")
	if got := valueOf[string](b, "document.getElementById('redo').ariaDisabled"); got != "true" {
		t.Errorf("redo after another move: aria-disabled is %q", got)
	}
	b.click("#new")
	b.says("#status", "Red to move")
	if got := valueOf[string](b, "document.getElementById('moves').value"); got != "7x6x4:-" {
		t.Errorf("a new game is %q", got)
	}
	b.tidy()
}

// A second click is not taken as a move of the other side.
func TestPageDoubleClick(t *testing.T) {
	b := open(t, Config{Limits: Limits{Time: time.Second / 10}}, "/")
	b.says("#status", "Red to move: you")
	b.choose("agent", "random")
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("for (let i = 0; i < 5; i++) { document.querySelector(%q).click(); }", column(3))))
	b.until("/Yellow played .. Red to move/.test(document.getElementById('status').textContent)")
	b.until("fetch('/ui/config').then(() => true)") // a request after those still under way
	if got := b.position(); !regexp.MustCompile(`^7x6x4:4.$`).MatchString(got) {
		t.Errorf("after one move each the address ends in %q", got)
	}
}

// A game against an agent by keyboard alone, until it ends in any way. It begins with the focus outside the page.
func TestPageKeyboard(t *testing.T) {
	b := open(t, Config{}, "/")
	b.says("#status", "Red to move: you")
	b.choose("agent", "random")
	for range 20 { // the board is one tab stop
		b.press(kb.Tab)
		if valueOf[bool](b, "document.activeElement.parentElement.id === 'board'") {
			break
		}
	}
	if got := valueOf[string](b, "document.activeElement.ariaLabel"); got != "Column 4: empty" {
		t.Fatalf("the focus is on %q, want the middle column", got)
	}
	b.picture("focus")
	b.press(kb.ArrowLeft)
	if got := valueOf[string](b, "document.activeElement.ariaLabel"); !strings.HasPrefix(got, "Column 3:") {
		t.Fatalf("left of the middle is %q", got)
	}
	b.press(kb.Enter)
	b.until("document.getElementById('status').textContent.match(/Yellow played .. Red to move/)")
	random := rand.New(rand.NewPCG(1, 2))
	over := false
	for range 42 {
		legal := valueOf[[]int](b, "[...document.querySelectorAll('#board > button')].flatMap((e, i) => e.ariaDisabled === 'true' ? [] : [i])")
		if len(legal) == 0 {
			t.Fatal("no column is open, but the game is not over")
		}
		before := valueOf[string](b, "location.hash")
		b.press(strconv.Itoa(1 + legal[random.IntN(len(legal))]))
		b.until(fmt.Sprintf("location.hash !== %q && document.getElementById('status').textContent.match(/you$|wins|draw/)", before))
		if over = valueOf[bool](b, "/wins|draw/.test(document.getElementById('status').textContent)"); over {
			break
		}
	}
	if !over {
		t.Fatal("the game did not end")
	}
	_, moves, err := parsePosition(b.position())
	if err != nil || len(moves) < 7 {
		t.Errorf("the game is %v, %v", moves, err)
	}
	b.press(kb.Backspace)
	b.until("document.getElementById('status').textContent.endsWith('Red to move: you')")
	b.press("?")
	b.until("/Search: |Exact: |known yet/.test(document.getElementById('status').textContent)")
	b.tidy()
}

// The page shows the solver's scores of a position.
func TestPageAnalysis(t *testing.T) {
	const moves = "444444226626"
	b := open(t, Config{Limits: Limits{Time: 10 * time.Second}}, "/#"+moves)
	board := game.MustBoard(game.Connect4)
	p, _, err := board.ParseMoves(moves)
	if err != nil {
		t.Fatal(err)
	}
	s, err := solver.New(board, solver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, best, err := s.Scores(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	b.until("/, a (win|draw|loss): /.test(document.getElementById('exact-text').textContent)")
	row := func(n int) []string {
		return valueOf[[]string](b, fmt.Sprintf("[...document.querySelectorAll('#opinions > [role=row]:nth-child(%d) > [role=cell]')].map((e) => e.innerText.trim())", n))
	}
	var scores []string
	for _, x := range want {
		scores = append(scores, scoreText(x))
	}
	if diff := cmp.Diff(scores, row(4)); diff != "" {
		t.Errorf("exact scores (-want +got):\n%s", diff)
	}
	if text := b.text("#exact-text"); !strings.HasPrefix(text, scoreText(best.Score)+", a ") {
		t.Errorf("the exact score is %q, want %d", text, best.Score)
	}
	b.until("/positions tried/.test(document.getElementById('search-text').textContent) && document.querySelectorAll('#line li').length > 0")
	sum := 0
	for _, text := range row(2) {
		if n, err := strconv.Atoi(text); err == nil {
			sum += n
		}
	}
	if sum < 95 || sum > 105 {
		t.Errorf("the policy %q sums to %d%%", row(2), sum)
	}
	if !slices.ContainsFunc(row(3), regexp.MustCompile(`^([+-]?\d+|win|draw|loss)$`).MatchString) {
		t.Errorf("the search's values are %q", row(3))
	}
	if high := valueOf[float64](b, "Math.max(...[...document.querySelectorAll('.bar.visits > i')].map((e) => parseFloat(e.style.height)))"); high != 100 {
		t.Errorf("the highest bar of visits is %v%%", high)
	}
	if text := b.text("#wdl-text"); !regexp.MustCompile(`^win \d+%, draw 0%, loss \d+% \(bitsquares\)$`).MatchString(text) {
		t.Errorf("the opinion is %q", text)
	}
	b.picture("analysis")
	b.tidy()
}

func scoreText(x int) string {
	switch {
	case x == solver.NoMove:
		return ""
	case x > 0:
		return fmt.Sprintf("+%d", x)
	}
	return strconv.Itoa(x)
}

// The bars move while a search runs.
func TestPageUpdates(t *testing.T) {
	b := open(t, Config{Evaluator: evaltest.Raw(&evaltest.Stub{Source: eval.CPU}), Model: "mine", Limits: Limits{Time: time.Minute}}, "/")
	b.says("#opinions", "Network mine, in %")
	b.until("/[0-9.]+ k? ?positions tried/.test(document.getElementById('search-text').textContent)")
	first := b.text("#search-text")
	b.until(fmt.Sprintf("document.getElementById('search-text').textContent !== %q", first))
	b.click("#evaluate")
	b.says("#search-text", "off")
	if !valueOf[bool](b, "document.querySelector('#opinions > [role=row]:nth-child(3)').hidden") {
		t.Error("the row of the search is shown while it is off")
	}
}

// Without gravity, moves are cells, and the cells show what is known about them.
func TestPageFree(t *testing.T) {
	b := open(t, Config{}, "/#3x3x3free:5")
	b.says("#status", "Red played 5. Yellow waits")
	b.until("[...document.querySelectorAll('.hole')].some((e) => /^(0|draw)$/.test(e.textContent))")
	if width, height := valueOf[int](b, "document.getElementById('board').offsetWidth"), valueOf[int](b, "document.getElementById('board').offsetHeight"); width != height {
		t.Errorf("the board is %d x %d pixels", width, height)
	}
	b.picture("free")
	b.choose("side", "both")
	b.says("#status", "Yellow to move")
	b.do(chromedp.Focus(chromedp.CSS("#board > button:nth-child(5)")))
	b.press(kb.ArrowUp + kb.ArrowLeft)
	b.press(" ")
	b.says("#status", "Yellow played 1. Red to move")
	if got := valueOf[string](b, "document.activeElement.ariaLabel"); got != "1: row 1, column 1, yellow" {
		t.Errorf("the cell that was played is called %q", got)
	}
	b.tidy()
}

// Two agents play to the end while a person watches.
func TestPageAgents(t *testing.T) {
	b := open(t, Config{}, "/#4x4x3:-")
	b.says("#status", "Red to move")
	b.choose("agent", "other")
	b.do(chromedp.SetValue(chromedp.CSS("#agent-text"), "mcts:visits=20"))
	b.choose("side", "none")
	b.says("#status", "Red waits: mcts:visits=20") // as after every link
	b.click("#go")
	b.until("/wins|draw/.test(document.getElementById('status').textContent)")
	b.click("#undo")
	b.says("#status", "waits: mcts:visits=20")
	b.click("#go")
	b.until("/wins|draw/.test(document.getElementById('status').textContent)")
	b.tidy()
}

// thinking returns a page on which an agent has a minute for its reply to the first move, the middle column.
func thinking(t *testing.T) *tab {
	t.Helper()
	b := open(t, Config{Limits: Limits{Time: time.Minute}}, "/")
	b.says("#status", "Red to move: you")
	b.click("#evaluate")
	b.click("#solve")
	b.choose("agent", "other")
	b.choose("agent-text", "uct-bitsquares:time=1m")
	b.click(column(3))
	b.says("#status", "Yellow thinks: uct-bitsquares:time=1m")
	return b
}

// Undo while the agent thinks does not wait for it, and the server stops thinking.
func TestPageUndoThinking(t *testing.T) {
	b := thinking(t)
	b.click("#undo")
	b.says("#status", "Red to move: you")
	for len(b.h.slots.running) > 0 {
		time.Sleep(time.Millisecond) // there is no other sign of it
	}
	if got := b.position(); got != "7x6x4:-" {
		t.Errorf("the address ends in %q", got)
	}
	b.tidy()
}

// The page says what is wrong, and the game continues.
func TestPageWrong(t *testing.T) {
	b := open(t, Config{}, "/#7x6x4:448")
	b.says("#problem", `moves "448": move 3 is "8"`)
	b.says("#status", "Red to move")
	b.do(chromedp.SetValue(chromedp.CSS("#moves"), "20x20x4:1"), chromedp.SendKeys(chromedp.CSS("#moves"), kb.Enter))
	b.says("#problem", "at most 128")
	b.choose("agent", "other")
	b.do(chromedp.SetValue(chromedp.CSS("#agent-text"), "robot"))
	b.choose("agent-text", "robot")
	b.click(column(3))
	b.says("#problem", `agent "robot": there are`)
	b.says("#status", "Yellow waits: robot")
	if !valueOf[bool](b, "document.getElementById('agent-text').ariaInvalid === 'true'") {
		t.Error("the agent's field is not marked as wrong")
	}
	b.picture("wrong")
	b.choose("agent", "random") // this clears the problem
	b.says("#status", "Red to move")
	if shown := valueOf[bool](b, "!document.getElementById('problem').hidden"); shown {
		t.Error("the problem is still shown")
	}
	b.mu.Lock() // the browser reports refusals as errors
	b.wrong = slices.DeleteFunc(b.wrong, func(s string) bool { return strings.Contains(s, "400 (Bad Request)") })
	b.mu.Unlock()
	b.tidy()
}

// services returns metrics like the service's.
func services() *prometheus.Registry {
	r := prometheus.NewRegistry()
	success := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "nv_inference_request_success"}, []string{"model", "version"})
	rows := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "evald_rows_total", Help: "Positions by who answered."}, []string{"source"})
	sizes := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "evald_batch_rows", Help: "Rows of batches.", Buckets: prometheus.ExponentialBuckets(1, 2, 9)})
	times := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "evald_request_seconds", Buckets: prometheus.ExponentialBuckets(1e-6, 2, 22)})
	pending := prometheus.NewGauge(prometheus.GaugeOpts{Name: "nv_inference_pending_request_count"})
	never := prometheus.NewCounter(prometheus.CounterOpts{Name: "nv_inference_count"})
	other := prometheus.NewGauge(prometheus.GaugeOpts{Name: "build_info", Help: "What was built."})
	r.MustRegister(success, rows, sizes, pending, times, never, other)
	success.WithLabelValues("default", "1").Add(1234)
	rows.WithLabelValues("cpu").Add(5000)
	rows.WithLabelValues("cache").Add(700)
	pending.Set(3)
	for i := range 300 {
		sizes.Observe(float64(i % 200))
		times.Observe((100.5 + float64(i)) / 1e6)
	}
	return r
}

func TestPageService(t *testing.T) {
	b := open(t, Config{Metrics: services()}, "/#service")
	b.until("document.querySelectorAll('#panels .panel').length === 5 && document.querySelectorAll('#panels svg').length === 5")
	titles := valueOf[[]string](b, "[...document.querySelectorAll('#panels h3')].map((e) => e.firstChild.textContent.trim())")
	if diff := cmp.Diff([]string{"Requests", "Who answered", "Batch sizes", "Waiting", "Time"}, titles); diff != "" {
		t.Errorf("panels (-want +got):\n%s", diff)
	}
	text := b.text("#panels")
	for _, want := range []string{"cpu", "cache", "answered", "Rows in a batch, mean 82.8", "300", "Time of a request, mean 250 µs", "512 µs"} {
		if !strings.Contains(text, want) {
			t.Errorf("the dashboard has no %q: %q", want, text)
		}
	}
	b.click("#others-box summary")
	b.says("#others", "build_info")
	b.picture("service")
	b.tidy()
}

// metrics writes the metrics of a training run and of the learning loop, and returns their folder.
func metrics(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var steps, generations strings.Builder
	for i := range 60 {
		fmt.Fprintf(&steps, `{"step":%d,"lr":%v,"loss":%v,"wdl":{"loss":%v,"accuracy":%v},"policy":{"loss":%v,"accuracy":%v},"positions_per_second":%d}`+"\n",
			50*(i+1), 0.01/(1+float64(i)/20), 2.6-float64(i)/50, 0.9-float64(i)/200, 0.5+float64(i)/150, 1.7-float64(i)/80, 0.3+float64(i)/200, 4000+10*(i%7))
	}
	for i := range 12 {
		fmt.Fprintf(&generations, `{"generation":%d,"elo":%d,"elo_error":%d,"wins":%d,"draws":%d,"losses":%d,"promoted":true,"games":%d,"accuracy":[{"visits":0,"perfect":{"value":%v,"low":%v,"high":%v}},{"visits":100,"perfect":{"value":%v,"low":%v,"high":%v}}]}`+"\n",
			i, 40*i-i*i, 20+i%3, 60+i, 10, 50-i, 500*(i+1), 0.7+float64(i)/100, 0.68+float64(i)/100, 0.72+float64(i)/100, 0.8+float64(i)/100, 0.79+float64(i)/100, 0.82+float64(i)/100)
	}
	for name, text := range map[string]string{"first/metrics.jsonl": steps.String(), "loop/generations.jsonl": generations.String() + `{"torn`} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPageTraining(t *testing.T) {
	b := open(t, Config{Runs: metrics(t)}, "/#training")
	b.until("document.querySelectorAll('#curves svg').length > 0")
	b.choose("run", "first")
	b.says("#training-note", "metrics.jsonl: 60 rows")
	titles := valueOf[[]string](b, "[...document.querySelectorAll('#curves h3')].map((e) => e.firstChild.textContent.trim())")
	if diff := cmp.Diff([]string{"Loss", "Accuracy", "Learning rate", "Positions a second"}, titles); diff != "" {
		t.Errorf("charts (-want +got):\n%s", diff)
	}
	b.picture("training")
	b.tidy()
	b.choose("run", "loop")
	b.says("#training-note", "generations.jsonl: 12 rows, 1 lines that cannot be read")
	if bands := valueOf[int](b, "document.querySelectorAll('path.band').length"); bands != 3 {
		t.Errorf("%d curves have a band, want elo and two of accuracy", bands)
	}
	b.picture("learning")
	b.tidy()
}

// The page works on a phone, with dark colours, and with a board that is wider than the screen.
func TestPagePhone(t *testing.T) {
	b := open(t, Config{Metrics: services(), Runs: metrics(t)}, "/#7x6x4:4444422", phone(), dark())
	b.until("/positions tried/.test(document.getElementById('search-text').textContent)")
	b.picture("phone_dark")
	if ground := valueOf[string](b, "getComputedStyle(document.body).backgroundColor"); ground != "rgb(20, 23, 28)" {
		t.Errorf("the ground is %s", ground)
	}
	b.tidy()
	if small := valueOf[[]string](b, "[...document.querySelectorAll('button, select, input:not([type=checkbox]), nav a')].filter((e) => e.offsetParent && Math.min(e.offsetWidth, e.offsetHeight) < 36).map((e) => e.id || e.textContent)"); len(small) > 0 {
		t.Errorf("too small for a finger: %q", small)
	}
	b.run("location.hash = '#20x5x4:-'")
	b.until("document.querySelectorAll('#board > button').length === 20 && /positions tried/.test(document.getElementById('search-text').textContent)")
	b.picture("phone_wide")
	b.tidy()
	b.run("location.hash = '#7x7x5free:p'")
	b.until("document.querySelectorAll('#board > button').length === 49 && /positions tried/.test(document.getElementById('search-text').textContent)")
	b.picture("phone_free")
	b.tidy()
	b.run("location.hash = '#service'")
	b.until("document.querySelectorAll('#panels svg').length === 5")
	b.picture("phone_service")
	b.tidy()
	b.run("location.hash = '#training'")
	b.until("document.querySelectorAll('#curves svg').length > 0")
	b.picture("phone_training")
	b.tidy()
}
