package mcts

import "time"

// clock foresees how many visits a tree will have when its time is over.
type clock struct {
	start, deadline time.Time // deadline is zero where there is none
	visits          int       // when it started
}

func newClock(deadline time.Time, t *Tree) *clock {
	return &clock{start: time.Now(), deadline: deadline, visits: t.Visits()}
}

// The rate is trusted after a part of the time, and then the time left is taken to be longer than it is.
const (
	clockTrust = 10
	clockSlack = 1.25
)

// left is how many visits may still come, at most limit in all.
func (c *clock) left(t *Tree, limit int) int {
	left := limit - t.Visits()
	if c.deadline.IsZero() {
		return left
	}
	now := time.Now()
	spent, rest := now.Sub(c.start), c.deadline.Sub(now)
	if spent*clockTrust < spent+rest {
		return left
	}
	rate := float64(t.Visits()-c.visits) / spent.Seconds()
	return min(left, int(clockSlack*rate*rest.Seconds())+1)
}

// decided reports whether the move with the most visits keeps that place whatever the visits to come, unless they prove
// that it loses. A move that is certain to lose is no rival.
func (c *clock) decided(t *Tree, limit int) bool {
	most, second, open := 0, 0, 0
	for _, m := range t.rootMoves() {
		if m.proof == lost {
			continue
		}
		open++
		switch v := int(m.visits); {
		case v > most:
			most, second = v, most
		case v > second:
			second = v
		}
	}
	return open == 1 || open > 1 && most-second > c.left(t, limit)
}
