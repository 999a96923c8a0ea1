package stream

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tableWidth is the maximum number of characters of a table's lines; most terminals are at least as wide.
const tableWidth = 80

// Column is a column of a table.
type Column struct {
	Name  string
	Width int // in characters; negative: cells are left-aligned, and longer ones are cut and end with ".."
}

// Columns are the columns of a table, which two blanks separate.
type Columns []Column

// Append appends a row with a cell for each column.
func (c Columns) Append(to []byte, cells ...string) []byte {
	var row strings.Builder
	for i, cell := range cells {
		row.WriteString(c[i].pad(cell))
	}
	return append(append(to, strings.TrimRight(row.String(), " ")...), '\n')
}

// pad brings a cell to the column's width.
func (c Column) pad(cell string) string {
	cell = printable(cell)
	if most := -c.Width; most > 0 && utf8.RuneCountInString(cell) > most {
		cell = string([]rune(cell)[:most-2]) + ".."
	}
	return fmt.Sprintf("%*s  ", c.Width, cell)
}

// Note appends a row of a first cell and a text, such as the reason why a line was refused.
func (c Columns) Note(to []byte, first, text string) []byte {
	text = printable(strings.TrimPrefix(text, "line "+first+": "))
	first = c[0].pad(first)
	return append(to, wrap(first+text, utf8.RuneCountInString(first))...)
}

// printable replaces control characters, which would move a terminal's cursor.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// Writer returns a writer of rows that writes the names of the columns before the first row.
func (c Columns) Writer(w io.Writer) io.Writer {
	names := make([]string, len(c))
	for i := range c {
		names[i] = c[i].Name
	}
	return &headed{w, c.Append(nil, names...)}
}

type headed struct {
	io.Writer
	head []byte // nil once it is written
}

func (h *headed) Write(p []byte) (int, error) {
	if head := h.head; head != nil {
		h.head = nil
		if _, err := h.Writer.Write(head); err != nil {
			return 0, err
		}
	}
	return h.Writer.Write(p)
}

// wrap breaks a text at blanks into lines of at most tableWidth characters, unless a word is longer. All lines but the first are indented.
func wrap(text string, indent int) string {
	var lines strings.Builder
	for rest := strings.TrimRight(text, " \n"); ; {
		cut := len(rest)
		if utf8.RuneCountInString(rest) > tableWidth {
			fits := len(string([]rune(rest)[:tableWidth+1]))
			if at := strings.LastIndexByte(rest[:fits], ' '); at > indent {
				cut = at
			} else if at := strings.IndexByte(rest[fits:], ' '); at >= 0 {
				cut = fits + at
			}
		}
		lines.WriteString(rest[:cut] + "\n")
		if cut == len(rest) {
			return lines.String()
		}
		rest = strings.Repeat(" ", indent) + rest[cut+1:]
	}
}

// Percent returns a probability as a percentage, for a cell.
func Percent(p float32) string { return fmt.Sprintf("%.1f", 100*p) }
