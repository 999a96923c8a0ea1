package short

import (
	"regexp"
	"strings"
	"sync"
)

// Tail keeps the end of the text written to it, such as a process's stderr. It is safe for concurrent use.
type Tail struct {
	mu  sync.Mutex
	end []byte
}

// Write implements io.Writer, and never fails.
func (t *Tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, text...)
	t.end = t.end[max(0, len(t.end)-4096):]
	return len(text), nil
}

// exception matches the line of a Python traceback that says what happened.
var exception = regexp.MustCompile(`(?m)^[\w.]*(Error|Exception|Failed|Unsupported|Interrupt)\b.*`)

// Exception is the last line that names an exception of Python, which advice on what to set may follow; without one, it is LastLine.
func (t *Tail) Exception() string {
	t.mu.Lock()
	all := exception.FindAll(t.end, -1)
	t.mu.Unlock()
	if len(all) == 0 {
		return t.LastLine()
	}
	return string(all[len(all)-1])
}

// LastLine is the last line that is not empty.
func (t *Tail) LastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.end)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
