package arena

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Standing is one player's row of the table.
type Standing struct {
	Rank     int     `json:"rank"`
	Player   string  `json:"player"`
	Games    int     `json:"games"`
	Wins     int     `json:"wins"`
	Draws    int     `json:"draws"`
	Losses   int     `json:"losses"`
	Score    float64 `json:"score"`     // points per game, 0 to 1; 0 without games
	Elo      float64 `json:"elo"`       // relative to the mean of all players
	EloError float64 `json:"elo_error"` // half the 95% interval; -1 if there are too few games to tell
	Moves    int     `json:"moves"`
	Seconds  float64 `json:"seconds"`  // per move, on average
	Longest  float64 `json:"longest"`  // seconds of the longest move
	Late     int     `json:"late"`     // moves that took longer than the player's limit
	Forfeits int     `json:"forfeits"` // games lost by an error or an illegal move
	Why      string  `json:"why,omitempty"`
}

// Meeting is the result of one player against another.
type Meeting struct {
	A      string  `json:"a"`
	B      string  `json:"b"`
	Games  int     `json:"games"`
	Wins   int     `json:"wins"` // of A
	Draws  int     `json:"draws"`
	Losses int     `json:"losses"`
	Score  float64 `json:"score"` // of A, points per game
	// Pairs counts pairs of games on one opening by A's points: 0, 0.5, 1, 1.5, 2. Openings with only one game so far are
	// left out.
	Pairs    [5]int  `json:"pairs"`
	Elo      float64 `json:"elo"`       // A's rating minus B's
	EloError float64 `json:"elo_error"` // as in Standing
	Superior float64 `json:"superior"`  // probability that A is the better one
}

// Table is the standing of a match.
type Table struct {
	Standings []Standing `json:"standings"` // by rating, the best first
	Meetings  []Meeting  `json:"meetings"`  // each pair once, A above B in the standings
	Draws     int        `json:"draws"`
	Games     int        `json:"games"`
}

// NewTable sums up the games of the named players.
func NewTable(names []string, games []Game) Table {
	s := sums{players: make([]Standing, len(names)), index: map[string]int{}, met: map[[2]int]*meeting{}}
	for i, name := range names {
		s.players[i].Player = name
		s.index[name] = i
	}
	for i := range games {
		s.add(&games[i])
	}
	return s.table(names, len(games))
}

// sums is a table under construction.
type sums struct {
	players []Standing // in the order of names
	index   map[string]int
	met     map[[2]int]*meeting // by the two players' indices, the lower first
}

// meeting of players a < b.
type meeting struct {
	wins, draws, losses int                  // of a
	openings            map[int32]*Encounter // by opening
}

func (s *sums) add(g *Game) {
	first, second := s.index[g.First], s.index[g.Second]
	a, b := &s.players[first], &s.players[second]
	a.count(g.Points, g.FirstSeconds, g.FirstLongest, g.FirstMoves, g.FirstLate)
	b.count(1-g.Points, g.SecondSeconds, g.SecondLongest, g.SecondMoves, g.SecondLate)
	if g.forfeit() {
		loser := a
		if g.Points == 1 {
			loser = b
		}
		loser.Forfeits++
		loser.Why = g.Reason
	}
	points := g.Points
	if first > second {
		first, second, points = second, first, 1-points
	}
	m := s.met[[2]int{first, second}]
	if m == nil {
		m = &meeting{openings: map[int32]*Encounter{}}
		s.met[[2]int{first, second}] = m
	}
	switch points {
	case 1:
		m.wins++
	case 0:
		m.losses++
	default:
		m.draws++
	}
	e := m.openings[g.Opening]
	if e == nil {
		e = &Encounter{A: first, B: second}
		m.openings[g.Opening] = e
	}
	e.Games++
	e.Points += points
}

func (s *Standing) count(points, seconds, longest float64, moves, late int32) {
	s.Games++
	switch points {
	case 1:
		s.Wins++
	case 0:
		s.Losses++
	default:
		s.Draws++
	}
	s.Score += points
	s.Seconds += seconds
	s.Longest = max(s.Longest, longest)
	s.Moves += int(moves)
	s.Late += int(late)
}

func (s *sums) table(names []string, games int) Table {
	var encounters []Encounter
	for a := range names {
		for b := a + 1; b < len(names); b++ {
			if m := s.met[[2]int{a, b}]; m != nil {
				for _, opening := range slices.Sorted(maps.Keys(m.openings)) {
					encounters = append(encounters, *m.openings[opening])
				}
			}
		}
	}
	r := Rate(len(names), encounters)
	order := make([]int, len(names))
	for i := range names {
		order[i] = i
		p := &s.players[i]
		p.Elo, p.EloError = r.Elo[i], finite(r.Error(i))
		p.Score /= float64(max(1, p.Games))
		p.Seconds /= float64(max(1, p.Moves))
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.Elo[b], r.Elo[a]) })
	t := Table{Games: games}
	for rank, i := range order {
		p := s.players[i]
		p.Rank = rank + 1
		t.Standings = append(t.Standings, p)
		for _, j := range order[rank+1:] {
			if m := s.meeting(names, i, j); m.Games > 0 {
				m.Elo, m.EloError, m.Superior = r.Difference(i, j)
				m.EloError = finite(m.EloError)
				t.Meetings = append(t.Meetings, m)
				t.Draws += m.Draws
			}
		}
	}
	return t
}

// meeting is the result of i against j.
func (s *sums) meeting(names []string, i, j int) Meeting {
	m := s.met[[2]int{min(i, j), max(i, j)}]
	if m == nil {
		return Meeting{}
	}
	v := Meeting{A: names[i], B: names[j], Wins: m.wins, Draws: m.draws, Losses: m.losses}
	if i > j {
		v.Wins, v.Losses = v.Losses, v.Wins
	}
	v.Games = v.Wins + v.Draws + v.Losses
	v.Score = (float64(v.Wins) + float64(v.Draws)/2) / float64(v.Games)
	for _, e := range m.openings {
		if e.Games != 2 {
			continue
		}
		points := e.Points
		if i > j {
			points = 2 - points
		}
		v.Pairs[int(2*points)]++
	}
	return v
}

// finite returns x, or -1 if it is infinite, which JSON cannot express.
func finite(x float64) float64 {
	if math.IsInf(x, 0) {
		return -1
	}
	return x
}
