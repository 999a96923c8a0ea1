package short

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

// Lines are the same however they are cut into writes, and end with the first error.
func TestLines(t *testing.T) {
	const text = "one\n\ntwo\r\nno end"
	for size := 1; size <= len(text); size++ {
		var got []string
		l := &Lines{Each: func(line string) error {
			got = append(got, line)
			return nil
		}}
		for from := 0; from < len(text); from += size {
			part := text[from:min(from+size, len(text))]
			if n, err := io.WriteString(l, part); n != len(part) || err != nil {
				t.Errorf("write %q: %d, %v", part, n, err)
			}
		}
		if s := fmt.Sprintf("%q", got); s != `["one" "" "two\r"]` {
			t.Errorf("by %d bytes: %s", size, s)
		}
	}
	failure := errors.New("enough")
	l := &Lines{Each: func(string) error { return failure }}
	if _, err := io.WriteString(l, text); err != failure {
		t.Errorf("error %v, want that of Each", err)
	}
}
