package main

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// Every table for people fits a terminal of 80 columns, whatever the board and the error.
func TestTables(t *testing.T) {
	const queries = `{"id":"over","moves":"1212121"}
{"id":"typo","moves":"448"}
{"moves":"44"}
{"id":"t","action":"terminate","terminate_id":"long"}
{"id":"an id\nthat is long","moves":"9x5x4:6862261646278997351243442483357","visits":8,"depth":3}
`
	var transcript strings.Builder
	for _, c := range []struct{ in, args string }{
		{solvable + "20x20x4:1\n", "eval --backend bitsquares"},
		{solvable + "20x20x4:1\n", "search --backend bitsquares --visits 300"},
		{solvable + "20x20x4:1\n", "solve --threads 1 --table-mib 8"},
		{solvable + "20x20x4:1\n", "solve --scores --table-mib 8"},
		{queries, "analyze --backend bitsquares"},
	} {
		_, out, _ := evald(t, c.in, append(strings.Fields(c.args), "--format", "table")...)
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("evald %s: a line of %d characters: %s", c.args, n, line)
			}
		}
		out, _, _ = strings.Cut(out, "\n\n") // the throughput of eval
		transcript.WriteString("$ evald " + c.args + "\n" + strings.TrimSpace(out) + "\n\n")
	}
	golden(t, "tables.txt", regexp.MustCompile(`(?m)\d\.\d{3}  (yes|no)`).ReplaceAllString(transcript.String(), "0  $1"))
}
