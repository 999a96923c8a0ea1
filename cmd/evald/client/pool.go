package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/engine/eval"
)

// Pool asks one model of several servers, each time the one that has the fewest rows of this pool under way. It is safe for
// concurrent use. How fast it is depends on how many calls its users make at once.
type Pool struct {
	mu      sync.Mutex
	servers []*server
}

// server is one of a pool.
type server struct {
	*Client
	rows int       // under way
	rest time.Time // it could not answer, and is asked last until then
}

// rest is how long a server is asked last that was shutting down, or could not be reached.
const rest = 2 * time.Second

// DialPool is Dial for several addresses of servers that have the same model. There must be one or more.
func DialPool(addresses []string, model string, options ...grpc.DialOption) (*Pool, error) {
	if len(addresses) == 0 {
		return nil, errors.New("client: no addresses")
	}
	p := &Pool{}
	for _, address := range addresses {
		c, err := Dial(address, model, options...)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.servers = append(p.servers, &server{Client: c})
	}
	return p, nil
}

// Close ends all connections. Calls under way end with an error.
func (p *Pool) Close() (err error) {
	for _, s := range p.servers {
		err = errors.Join(err, s.Close())
	}
	return err
}

// Attributes are those of its clients.
func (p *Pool) Attributes() eval.Attributes { return p.servers[0].Attributes() }

// Compute implements eval.Backend, as Client does. If a server has too much to do, is shutting down or cannot be reached,
// the batch goes to the next one: nothing changes if two servers evaluate the same positions. Other errors are the same at
// all servers and are returned. If no server can answer, the error is that of the last.
func (p *Pool) Compute(ctx context.Context, b *eval.Batch) error {
	var tried []*server
	for {
		s := p.take(tried, len(b.Pos))
		err := s.Compute(ctx, b)
		again := err != nil && ctx.Err() == nil && (status.Code(err) == codes.Unavailable || status.Code(err) == codes.ResourceExhausted)
		p.giveBack(s, len(b.Pos), again && status.Code(err) == codes.Unavailable)
		if tried = append(tried, s); !again || len(tried) == len(p.servers) {
			return err
		}
	}
}

// take is the server to ask next of those that were not tried.
func (p *Pool) take(tried []*server, rows int) (best *server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, s := range p.servers {
		if slices.Contains(tried, s) {
			continue
		}
		if best == nil || now.Before(best.rest) && !now.Before(s.rest) || now.Before(best.rest) == now.Before(s.rest) && s.rows < best.rows {
			best = s
		}
	}
	best.rows += rows
	return best
}

func (p *Pool) giveBack(s *server, rows int, failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.rows -= rows
	if failed {
		s.rest = time.Now().Add(rest)
	}
}
