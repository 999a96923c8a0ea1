package game

import "sync"

// Boards caches prepared boards by their rules, since preparing one takes longer than evaluating most positions. The zero value is ready,
// and safe for concurrent use.
type Boards struct {
	mu    sync.Mutex
	last  *Board
	text  string // of last, if Parse was called for it
	known map[Rules]*Board
}

// keptBoards bounds the memory that clients can occupy by naming many different rules.
const keptBoards = 256

// Get is NewBoard with the cache.
func (b *Boards) Get(r Rules) (*Board, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.get(r)
}

// Parse is ParseRules followed by Get.
func (b *Boards) Parse(text string) (*Board, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last != nil && b.text == text {
		return b.last, nil
	}
	r, err := ParseRules(text)
	if err != nil {
		return nil, err
	}
	board, err := b.get(r)
	if err == nil {
		b.text = text
	}
	return board, err
}

func (b *Boards) get(r Rules) (*Board, error) {
	if b.last != nil && b.last.rules == r {
		return b.last, nil
	}
	board := b.known[r]
	if board == nil {
		var err error
		if board, err = NewBoard(r); err != nil {
			return nil, err
		}
		if b.known == nil || len(b.known) >= keptBoards {
			b.known = map[Rules]*Board{}
		}
		b.known[r] = board
	}
	b.last, b.text = board, ""
	return board, nil
}
