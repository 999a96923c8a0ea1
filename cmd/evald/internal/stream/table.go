package stream

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// Table writes answers as a table, and the throughput at the end.
type Table struct {
	rows  io.Writer
	since time.Time
}

var evalColumns = Columns{
	{"line", 5}, {"position", -17}, {"to move", 7}, {"win%", 5}, {"draw%", 5}, {"loss%", 5}, {"source", -10}, {"moves, %", -12},
}

// NewTable returns a Table that writes to w, and measures the throughput from now on.
func NewTable(w io.Writer) *Table { return &Table{evalColumns.Writer(w), time.Now()} }

// Encode implements Format.
func (t *Table) Encode(c *Chunk) { c.encode(appendRow) }

func appendRow(to []byte, a *Answer) []byte {
	line := strconv.Itoa(a.Number)
	if a.Err != nil {
		return evalColumns.Note(to, line, a.Err.Error())
	}
	wdl := a.WDL()
	return evalColumns.Append(to, line, a.Text, strconv.Itoa(a.State.Mark), Percent(wdl[0]), Percent(wdl[1]), Percent(wdl[2]),
		a.Source().String(), likeliest(a.State.Board.Rules(), a.Policy()))
}

// likeliest returns the two likeliest moves with their probabilities in percent, such as "4:85 3:10". It leaves out moves below half a
// percent.
func likeliest(r game.Rules, policy []float32) string {
	moves := make([]int, len(policy))
	for i := range moves {
		moves[i] = i
	}
	slices.SortStableFunc(moves, func(i, j int) int { return cmp.Compare(policy[j], policy[i]) })
	var named []string
	for _, move := range moves[:min(2, len(moves))] {
		if p := 100 * policy[move]; p >= 0.5 {
			named = append(named, fmt.Sprintf("%s:%.0f", game.FormatMoves(r, []int{move}), p))
		}
	}
	return strings.Join(named, " ")
}

// Write implements Format.
func (t *Table) Write(c *Chunk) error {
	_, err := t.rows.Write(c.Text)
	return err
}

// Close implements Format. It writes the number of answered lines by source, and the throughput.
func (t *Table) Close(s Summary) error {
	_, err := fmt.Fprint(t.rows, "\n"+wrap(s.Describe(time.Since(t.since)), 2))
	return err
}

// Describe returns a line with the number of positions by source, and the throughput.
func (s Summary) Describe(took time.Duration) string {
	var by []string
	for _, source := range slices.SortedFunc(maps.Keys(s.Sources), eval.Source.Compare) {
		by = append(by, fmt.Sprintf("%s %d", source, s.Sources[source]))
	}
	answered := s.Lines - s.Bad
	text := fmt.Sprintf("%d positions in %v, %.0f positions/s", answered, took.Round(max(took/1000, 1)), float64(answered)/took.Seconds())
	if len(by) > 0 {
		text += " (" + strings.Join(by, ", ") + ")"
	}
	if s.Bad > 0 {
		text += fmt.Sprintf("; %d bad lines", s.Bad)
	}
	return text
}
