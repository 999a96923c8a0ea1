package short

import "bytes"

// Lines calls Each with each line that is written to it, without its end. An error of Each is that of Write.
type Lines struct {
	Each func(line string) error
	rest []byte // of a line that has no end yet
}

// Write implements io.Writer.
func (l *Lines) Write(text []byte) (int, error) {
	l.rest = append(l.rest, text...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		l.rest = rest
		if err := l.Each(string(line)); err != nil {
			return 0, err
		}
	}
}
