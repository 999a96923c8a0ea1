package web

import (
	"errors"
	"fmt"
	"math"
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
	"github.com/evald/evald/engine/game/gametest"
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
	b.at("7x6x4:1212121")
	b.until("document.querySelectorAll('.won').length === 4")
	b.click(column(3)) // has no effect: the game is over
	b.click("#undo")
	b.says("#status", "Yellow played 2. Red to move")
	b.click("#undo")
	b.says("#status", "Red played 1. Yellow to move")
	b.click("#redo")
	b.says("#status", "Yellow played 2. Red to move")
	b.click(column(6))
	b.says("#status", "Red played 7. Yellow to move")
	b.until("document.getElementById('redo').ariaDisabled === 'true'")
	b.click("#new")
	b.says("#status", "Red to move")
	b.at("7x6x4:-")
	b.tidy("")
}

// A second click is not taken as a move of the other side.
func TestPageDoubleClick(t *testing.T) {
	b := open(t, Config{Limits: Limits{Time: time.Second / 10}}, "/")
	b.says("#status", "Red to move: you")
	b.choose("agent", "beginner")
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("for (let i = 0; i < 5; i++) { document.querySelector(%q).click(); }", column(3))))
	b.until("/Yellow played .. Red to move/.test(document.getElementById('status').textContent)")
	b.until("fetch('/ui/config').then(() => true)") // a request after those still under way
	if got := b.position(); !strings.HasPrefix(got, "7x6x4:4") || len(got) != len("7x6x4:4.") {
		t.Errorf("after one move each the address ends in %q", got)
	}
}

// A game against an agent by keyboard alone, until it ends in any way. It begins with the focus outside the page.
func TestPageKeyboard(t *testing.T) {
	b := open(t, Config{}, "/")
	b.says("#status", "Red to move: you")
	b.choose("agent", "beginner")
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
	for !valueOf[bool](b, "/wins|draw/.test(document.getElementById('status').textContent)") {
		legal := valueOf[[]int](b, "[...document.querySelectorAll('#board > button')].flatMap((e, i) => e.ariaDisabled === 'true' ? [] : [i])")
		if len(legal) == 0 {
			t.Fatal("no column is open, but the game is not over")
		}
		before := valueOf[string](b, "location.hash")
		b.press(strconv.Itoa(1 + legal[random.IntN(len(legal))]))
		b.until(fmt.Sprintf("location.hash !== %q && document.getElementById('status').textContent.match(/you$|wins|draw/)", before))
	}
	_, moves, err := parsePosition(b.position())
	if err != nil || len(moves) < 7 {
		t.Errorf("the game is %v, %v", moves, err)
	}
	b.press(kb.Backspace)
	b.until("document.getElementById('status').textContent.endsWith('Red to move: you')")
	b.press("?")
	b.until("/Best|Looking/.test(document.getElementById('hint-text').textContent)")
	b.tidy("")
}

// The page shows the solver's scores of a position.
func TestPageAnalysis(t *testing.T) {
	b := open(t, Config{Limits: Limits{Time: 10 * time.Second}}, "/#444444226626")
	all := analyse(t, b.h, `{"position":"444444226626","visits":0,"solve":true}`) // TestAnalysis checks such scores
	var scores []string
	best := math.MinInt
	for _, x := range all[len(all)-2].Scores {
		scores = append(scores, "")
		if x != nil {
			scores[len(scores)-1], best = scoreText(12, *x), max(best, *x) // Red is to move
		}
	}
	b.until("/Best: /.test(document.getElementById('exact-text').textContent)")
	row := func(n int) []string {
		return valueOf[[]string](b, fmt.Sprintf("[...document.querySelectorAll('#opinions > [role=row]:nth-child(%d) > [role=cell] > span:not(.unseen)')].map((e) => e.innerText.trim())", n))
	}
	if diff := cmp.Diff(scores, row(4)); diff != "" {
		t.Errorf("exact scores (-want +got):\n%s", diff)
	}
	if text := b.text("#exact-text"); !strings.HasPrefix(text, fmt.Sprintf("Red wins in %s. Best: ", strings.TrimPrefix(scoreText(12, best), "R in "))) {
		t.Errorf("the exact score is %q, want %d", text, best)
	}
	b.until("/positions tried/.test(document.getElementById('search-text').textContent) && document.querySelectorAll('#line li').length > 0")
	// Once all is proved, the expected line is the solver's: its last stones are as many as the score says.
	proved := all[len(all)-2].Line
	if _, rest, _ := strings.Cut(scoreText(12, best), " in "); len(proved) == 0 || rest != strconv.Itoa((len(proved)+1)/2) {
		t.Errorf("the solver's line is %q, and the score %q", proved, scoreText(12, best))
	}
	b.until(fmt.Sprintf(`[...document.querySelectorAll("#line li")].map((e) => e.textContent.trim()).join(" ") === %q`, strings.Join(proved, " ")))
	sum := 0
	for _, text := range row(2) {
		if n, err := strconv.Atoi(text); err == nil {
			sum += n
		}
	}
	if sum < 95 || sum > 105 {
		t.Errorf("the policy %q sums to %d%%", row(2), sum)
	}
	if !slices.ContainsFunc(row(3), regexp.MustCompile(`^([RY] \d+%|50%|[RY] wins|draw)$`).MatchString) {
		t.Errorf("the search's values are %q", row(3))
	}
	if high := valueOf[float64](b, "Math.max(...[...document.querySelectorAll('.bar.visits > i')].map((e) => parseFloat(e.style.height)))"); high != 100 {
		t.Errorf("the highest bar of visits is %v%%", high)
	}
	if text := b.text("#wdl-text"); !regexp.MustCompile(`^Red \d+%, draw 0%, Yellow \d+% \(bitsquares\)$`).MatchString(text) {
		t.Errorf("the opinion is %q", text)
	}
	b.tidy("analysis")
}

// scoreText is what the page shows of the exact score of one of Red's moves on 7x6 after a number of stones: the winner, and the number of
// stones that it still places. By the definition of a score, the winner places its last stone when (42 - stones before it) / 2 are left to it,
// rounded up, and the score counts that stone and those left.
func scoreText(stones, x int) string {
	if x == 0 {
		return "draw"
	}
	winner := "R"
	if x < 0 {
		winner, stones, x = "Y", stones+1, -x
	}
	for n := 1; ; n, stones = n+1, stones+2 {
		if (42-stones+1)/2 == x {
			return fmt.Sprintf("%s in %d", winner, n)
		}
	}
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
	b.until("document.querySelector('#opinions > [role=row]:nth-child(3)').hidden")
}

// Without gravity, moves are cells, and the cells show what is known about them.
func TestPageFree(t *testing.T) {
	b := open(t, Config{}, "/#3x3x3free:5")
	b.says("#status", "Red played 5. Yellow waits")
	b.until("[...document.querySelectorAll('.hole')].some((e) => /^(0|draw)$/.test(e.textContent))")
	b.until("document.getElementById('board').offsetWidth === document.getElementById('board').offsetHeight")
	b.picture("free")
	b.choose("side", "both")
	b.says("#status", "Yellow to move")
	b.do(chromedp.Focus(chromedp.CSS("#board > button:nth-child(5)")))
	b.press(kb.ArrowUp + kb.ArrowLeft)
	b.press(" ")
	b.says("#status", "Yellow played 1. Red to move")
	b.until("document.activeElement.ariaLabel === '1: row 1, column 1, yellow'")
	b.tidy("")
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
	b.tidy("")
}

// Undo and Back while the agent thinks do not wait for it, and the server stops thinking. Forward then finds the move without a
// reply.
func TestPageThinking(t *testing.T) {
	b := open(t, Config{Limits: Limits{Time: time.Minute}}, "/")
	b.says("#status", "Red to move: you")
	b.click("#evaluate")
	b.click("#solve")
	b.choose("agent", "other")
	b.choose("agent-text", "uct-bitsquares:time=1m")
	for _, leave := range []func(){func() { b.click("#undo") }, b.back} {
		b.click(column(3))
		b.says("#status", "Yellow thinks: uct-bitsquares:time=1m")
		b.at("7x6x4:4")
		leave()
		b.says("#status", "Red to move: you")
		b.at("7x6x4:-")
		for b.h.config.Places.Taken() > 0 {
			time.Sleep(time.Millisecond) // nothing signals that the search has ended
		}
	}
	b.forward()
	b.at("7x6x4:4")
	b.says("#status", "Yellow waits: uct-bitsquares:time=1m")
	b.until("!document.getElementById('go').hidden")
	b.tidy("")
}

// The page says what is wrong, and the game continues.
func TestPageWrong(t *testing.T) {
	b := open(t, Config{}, "/")
	b.says("#status", "Red to move")
	b.do(chromedp.SetValue(chromedp.CSS("#moves"), "20x20x4:1"), chromedp.SendKeys(chromedp.CSS("#moves"), kb.Enter))
	b.says("#moves-problem", "at most 128")
	b.choose("agent", "other")
	b.do(chromedp.SetValue(chromedp.CSS("#agent-text"), "robot"))
	b.choose("agent-text", "robot")
	b.click(column(3))
	b.says("#problem", `agent "robot": there are`)
	b.says("#status", "Yellow waits: robot")
	b.until("document.getElementById('agent-text').ariaInvalid === 'true'")
	b.picture("wrong")
	b.choose("agent", "beginner") // this clears the problem
	b.says("#status", "Red to move")
	b.until("document.getElementById('problem').hidden")
	b.mu.Lock() // the browser reports refusals as errors
	b.wrong = slices.DeleteFunc(b.wrong, func(s string) bool { return strings.Contains(s, "400 (Bad Request)") })
	b.mu.Unlock()
	b.tidy("")
}

// services returns metrics like the service's.
func services() *prometheus.Registry {
	r := prometheus.NewRegistry()
	of := []string{"model", "version"}
	counter := func(name string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name}, append(of, labels...))
		r.MustRegister(c)
		return c
	}
	done, failed := counter("nv_inference_request_success"), counter("nv_inference_request_failure", "reason")
	rows, refused := counter("nv_inference_count"), counter("evald_refused_total")
	times := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "evald_request_seconds"}, of)
	waiting := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "evald_queued_rows"}, of)
	ready := prometheus.NewGauge(prometheus.GaugeOpts{Name: "evald_ready"})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "evald_build_info"}, []string{"version"})
	r.MustRegister(times, waiting, ready, build)
	ready.Set(1)
	build.WithLabelValues("v1").Set(1)
	done.WithLabelValues("default", "1").Add(1234)
	done.WithLabelValues("search", "1").Add(6)
	failed.WithLabelValues("default", "1", "BACKEND").Add(1)
	failed.WithLabelValues("default", "1", "CANCELED").Add(2)
	rows.WithLabelValues("default", "1").Add(5700)
	refused.WithLabelValues("default", "1").Add(2)
	waiting.WithLabelValues("default", "1").Set(3)
	for range 300 {
		times.WithLabelValues("default", "1").Observe(250e-6)
	}
	return r
}

// The status is a line and a row for each model. Rates are those between two looks.
func TestPageStatus(t *testing.T) {
	r := services()
	b := open(t, Config{Metrics: r}, "/#service")
	b.says("#service-line", "Ready: 0 positions and 0 requests a second")
	rows := func() []string {
		return valueOf[[]string](b, `[...document.querySelectorAll("#models tbody tr")].map((e) => [...e.children].map((c) => c.innerText).join("|"))`)
	}
	if diff := cmp.Diff([]string{"default 1|0|0|–|3|3|2|–", "search 1|0|0|–|0|0|0|–"}, rows()); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	more := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "nv_inference_count"}, []string{"model", "version"})
	err := r.Register(more)
	var there prometheus.AlreadyRegisteredError
	if !errors.As(err, &there) {
		t.Fatal(err)
	}
	there.ExistingCollector.(*prometheus.CounterVec).WithLabelValues("default", "1").Add(1e6)
	b.until(`/^Ready: \d.*k positions/.test(document.getElementById("service-line").textContent)`)
	b.tidy("service")
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
		fmt.Fprintf(&generations, `{"generation":%d,"elo":%d,"elo_error":%d,"wins":%d,"draws":%d,"losses":%d,"promoted":true,"games":%d,"accuracy":[{"name":"random","visits":0,"good":{"value":0.1,"low":0,"high":0.2}},{"name":"all","visits":0,"good":{"value":%v,"low":%v,"high":%v}},{"name":"all","visits":100,"good":{"value":%v,"low":%v,"high":%v}}]}`+"\n",
			i, 40*i-i*i, 20+i%3, 60+i, 10, 50-i, 500*(i+1), 0.7+float64(i)/100, 0.68+float64(i)/100, 0.72+float64(i)/100, 0.8+float64(i)/100, 0.79+float64(i)/100, 0.82+float64(i)/100)
	}
	write(t, filepath.Join(dir, "first", "metrics.jsonl"), steps.String())
	write(t, filepath.Join(dir, "loop", "generations.jsonl"), generations.String()+`{"torn`)
	return dir
}

// write writes a file and its folder.
func write(t *testing.T, path, text string) {
	t.Helper()
	gametest.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
}

// Runs are a table with what the newest line of each says, and one curve of one or two of them, whose values the pointer shows. The address has
// what is drawn.
func TestPageRuns(t *testing.T) {
	b := open(t, Config{Runs: metrics(t)}, "/#runs=loop")
	b.until("document.querySelectorAll('#run-chart canvas').length === 1")
	rows := func() []string {
		return valueOf[[]string](b, `[...document.querySelectorAll("#run-table tbody tr")].map((e) => [...e.children].slice(1, -1).map((c) => c.innerText).join("|")).sort()`)
	}
	if diff := cmp.Diff([]string{"first|running|Step 3 k|–|–", "loop|running|Generation 11|81.0% (79.0% to 83.0%)|319 (297 to 341)"}, rows()); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	chart := func(want string) {
		t.Helper()
		b.until(fmt.Sprintf(`document.getElementById("run-chart").getAttribute("aria-label") === %q`, want))
	}
	chart("Strength (Elo); latest loop: 319")
	over := valueOf[[]float64](b, `(() => { const r = document.querySelector("#run-chart .u-over").getBoundingClientRect(); return [r.left + r.width - 1, r.top + r.height / 2]; })()`)
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, over[0], over[1]))
	b.says("#run-chart .u-legend", "319 (297 .. 341)")
	b.tidy("runs")
	b.choose("run-curve", "accuracy.good all, visits 100")
	chart("Good moves all, 100 positions tried; latest loop: 0.91")
	b.do(chromedp.Reload())
	chart("Good moves all, 100 positions tried; latest loop: 0.91")
	b.click(`#run-table input[value=first]`)
	b.until(`[...document.getElementById("run-curve").options].some((o) => o.value === "loss")`)
	b.choose("run-curve", "loss")
	chart("Loss; latest first: 1.42")
	if hash := valueOf[string](b, "location.hash"); hash != "#runs=loop&with=first&curve=loss" {
		t.Errorf("the address is %q", hash)
	}
}

// The page works on a phone, with dark colours, and with a board that is wider than the screen.
func TestPagePhone(t *testing.T) {
	b := open(t, Config{Metrics: services(), Runs: metrics(t)}, "/#7x6x4:4444422", phone(), dark())
	b.until("/positions tried/.test(document.getElementById('search-text').textContent)")
	b.picture("phone_dark")
	b.until("getComputedStyle(document.body).backgroundColor === 'rgb(20, 23, 28)'")
	b.tidy("")
	if small := valueOf[[]string](b, "[...document.querySelectorAll('button, select, input:not([type=checkbox]), nav a')].filter((e) => e.offsetParent && Math.min(e.offsetWidth, e.offsetHeight) < 36).map((e) => e.id || e.textContent)"); len(small) > 0 {
		t.Errorf("too small for a finger: %q", small)
	}
	for _, view := range []struct{ name, hash, shown string }{
		{"wide", "20x5x4:-", "#board > button').length === 20 && /positions tried/.test(document.getElementById('search-text').textContent)"},
		{"free", "7x7x5free:p", "#board > button').length === 49 && /positions tried/.test(document.getElementById('search-text').textContent)"},
		{"service", "service", "#models tbody tr').length === 2"},
		{"runs", "runs", "#run-chart canvas').length > 0"},
	} {
		b.run(fmt.Sprintf("location.hash = '#%s'", view.hash))
		b.until("document.querySelectorAll('" + view.shown)
		b.tidy("phone_" + view.name)
	}
}
