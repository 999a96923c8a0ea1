package mcts

import "time"

// clock predicts the number of visits that a tree will have at its deadline.
type clock struct {
	start, deadline time.Time // deadline is zero if there is none
	visits          int       // the tree's visits at start
}

// The measured rate of visits is used once 1/clockTrust of the time is over. As a reserve, the predicted number of visits is multiplied by
// clockSlack.
const (
	clockTrust = 10
	clockSlack = 1.25
)

// left is an upper bound on the number of further visits. limit is the maximum number of all visits of the tree.
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

// decided reports whether the most visited move will remain the most visited, unless it is proved to lose. Moves that are already proved to
// lose do not count.
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
