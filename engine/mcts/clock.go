package mcts

import "time"

// clock foresees how many visits a tree will have when its time is over.
type clock struct {
	start, deadline time.Time // deadline is zero if there is none
	visits          int       // of the tree at start
}

// The rate of visits is trusted after 1/clockTrust of the time. Then the time left counts clockSlack times, to be safe.
const (
	clockTrust = 10
	clockSlack = 1.25
)

// left is how many visits may still come. limit is how many the tree may have in all.
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

// decided reports whether the move with the most visits keeps that place in any case, unless the visits to come prove that it
// loses. Moves that are proved to lose do not count.
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
