package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/core/config"
	"holdfast/core/guard"
	"holdfast/web"
	"holdfast/web/api"
)

// drainTime is how long replies under way may take once we are told to stop.
const drainTime = 10 * time.Second

// AppOptions say what to run and where.
type AppOptions struct {
	Paths   Paths
	Env     func(string) string
	Flags   map[string]string // settings by key, from the command line
	Console io.Writer         // readable log, nil for none
	// IKnow allows addresses beyond loopback, which then need the proxy secret.
	IKnow bool
}

// App is the running program: lock, settings, engine and two listeners. Open
// makes it, Run serves until told to stop, Close undoes Open.
type App struct {
	Runtime

	paths    Paths
	lock     *os.File
	log      *Log
	settings *Settings
	rollout  config.Rollout // as last published; took alone writes it
	engine   *engine
	token    string
	doors    *doors

	proxy, inspector   *http.Server
	proxyAt, inspectAt net.Listener
	handlers           sync.WaitGroup // requests whose handler has not returned

	quit      chan struct{} // closed by Quit: Run ends as if its context had
	quitOnce  sync.Once
	activate  atomic.Pointer[func()] // brings the desktop forward, nil for none
	stopWork  context.CancelFunc
	work      sync.WaitGroup // what runs beside requests, until stopWork
	drainTime time.Duration  // set before Close; drainTime unless a test hurries
}

// Open takes the home and listens. Nothing is served yet, but connections wait;
// runtime.json, written last, says that both listeners are open.
func Open(ctx context.Context, o AppOptions) (_ *App, err error) {
	if err := o.Paths.make(); err != nil {
		return nil, err
	}
	a := &App{paths: o.Paths, drainTime: drainTime, quit: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	a.lock, err = lockData(o.Paths)
	if err != nil {
		return nil, lockFault(o.Paths, err)
	}
	if a.settings, err = loadSettings(o.Paths.configFile(), o.Env, o.Flags); err != nil {
		return nil, err
	}
	if a.token, err = loadToken(o.Paths.tokenFile()); err != nil {
		return nil, err
	}
	a.log = openLog(o.Paths, o.Console)
	a.log.setLevel(a.settings.Current().LogLevel)
	return a, a.start(ctx, o)
}

// start opens engine and listeners.
func (a *App) start(ctx context.Context, o AppOptions) (err error) {
	c := a.settings.Current()
	if err := mayBind(c, o.IKnow); err != nil {
		return err
	}
	if a.proxyAt, err = listen("addr", c.Addr); err != nil {
		return err
	}
	if a.inspectAt, err = listen("inspector_addr", c.InspectorAddr); err != nil {
		return err
	}
	a.Runtime = Runtime{
		Addr: a.proxyAt.Addr().String(), Inspector: a.inspectAt.Addr().String(),
		PID: os.Getpid(), Instance: guard.NewSecret()[:16], StartedAt: time.Now().UTC(),
	}
	own := func() []string { return []string{a.Addr, a.Inspector} }
	if a.engine, err = openEngine(ctx, a.paths, a.settings, a.log, a.Instance, own); err != nil {
		return err
	}
	a.servers(o)
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.stopWork = stop
	a.rollout = c.Rollout
	a.settings.onChange(a.took)
	follow, err := a.settings.watch()
	if err != nil {
		return fmt.Errorf("watching the settings: %w", err)
	}
	a.work.Go(func() { follow(working) })
	a.work.Go(func() { a.engine.keep(working, a.log) })
	return a.Runtime.write(a.paths)
}

// mayBind refuses addresses that other machines reach, unless the owner knows
// and strangers cannot use the proxy.
func mayBind(c *config.Config, iKnow bool) error {
	for _, addr := range []string{c.Addr, c.InspectorAddr} {
		if guard.CheckBind(addr) == nil {
			continue
		}
		f := &Fault{Code: exitRefused, What: addr + " can be reached from other machines, who could then spend your keys and read your sessions"}
		switch {
		case !c.Web.ProxySecret:
			f.Hint = "use 127.0.0.1, or set web.proxy_secret = true and start with --i-know"
			return f
		case !iKnow:
			f.Hint = "use 127.0.0.1, or start with --i-know"
			return f
		}
	}
	return nil
}

func listen(key, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, &Fault{Code: exitFailed, What: "nothing can listen on " + addr, Err: err,
			Hint: "another program may use it; set " + key + " to another port, or to port 0 for a free one"}
	}
	return l, nil
}

// servers puts the guards in front of the two handlers.
func (a *App) servers(o AppOptions) {
	cfg := a.settings.Current
	tell := func(r *http.Request, p *guard.Problem) {
		a.log.Warn("a request was refused", "code", p.Code, "method", r.Method, "host", r.Host, "origin", r.Header.Get("Origin"))
	}
	origins := func() []string { return cfg().Web.AllowedOrigins }
	proxy := &guard.Proxy{
		Origins: origins, Open: []string{guard.HealthPath}, Wide: guard.CheckBind(cfg().Addr) != nil, Refused: tell,
		Forward: func() bool { return false }, // interception is not built yet
		Secret: func() string {
			if cfg().Web.ProxySecret {
				return guard.ProxySecret(a.token)
			}
			return ""
		},
	}
	inspector := guard.NewInspector(guard.InspectorOptions{
		Token: a.token, Origins: origins, Wide: guard.CheckBind(cfg().InspectorAddr) != nil, Refused: tell,
		Open: web.Open(), Page: web.Stranger(),
	})
	a.doors = openDoors(a.paths)
	a.engine.api.Desk = a.desk(inspector, o)
	a.proxy = guard.Server(a.counted(web.ProxyHandler(proxy, a.engine.api, a.engine.chain)))
	a.inspector = guard.Server(a.counted(web.Inspector(web.Options{
		Guard: inspector, API: a.engine.api, Ledger: a.engine.views(), BaseURL: a.BaseURL,
	})))
	for _, s := range []*http.Server{a.proxy, a.inspector} {
		s.ErrorLog = slog.NewLogLogger(a.log.Handler(), slog.LevelDebug)
	}
}

// counted lets Close wait for handlers that outlive their connection.
func (a *App) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.handlers.Add(1)
		defer a.handlers.Done()
		next.ServeHTTP(w, r)
	})
}

// took is told of every change of the settings, and of a file that is broken.
func (a *App) took(c *config.Config, broken error) {
	a.log.setLevel(c.LogLevel)
	if broken != nil {
		a.log.Warn("config.toml is broken, the last good settings stay in force", "error", broken)
	} else {
		a.log.Info("settings taken up", "rollout", c.Rollout.Mode, "bypass", c.Bypass)
	}
	a.engine.hub.Publish("config", api.NewConfigView(c, a.settings.path, broken))
	a.engine.kv.tier.wake()
	if c.Rollout != a.rollout {
		a.rollout = c.Rollout
		a.engine.publishRollout(c.Rollout)
	}
}

// BaseURL is what clients are pointed at.
func (a *App) BaseURL() string { return baseURL(a.Runtime, a.settings.Current(), a.token) }

func baseURL(r Runtime, c *config.Config, token string) string {
	u := "http://" + r.Addr
	if c.Web.ProxySecret {
		u += "/p/" + guard.ProxySecret(token)
	}
	return u
}

// Run serves until ctx ends or a listener fails.
func (a *App) Run(ctx context.Context) error {
	failed := make(chan error, 2)
	for _, s := range []struct {
		srv *http.Server
		at  net.Listener
	}{{a.proxy, a.proxyAt}, {a.inspector, a.inspectAt}} {
		go func() { failed <- s.srv.Serve(s.at) }()
	}
	a.log.Info("serving", "addr", a.Addr, "inspector", a.Inspector, "version", version())
	select {
	case <-ctx.Done():
		return nil
	case <-a.quit:
		return nil
	case err := <-failed:
		if errors.Is(err, http.ErrServerClosed) { // Close came first
			return nil
		}
		return fmt.Errorf("a listener failed: %w", err)
	}
}

// Close lets replies under way end, for at most drainTime, and gives the home
// back. The order is that of Open, backwards: no one is told of a process that
// no longer answers, and the ledger closes after its last writer.
func (a *App) Close() error {
	var errs []error
	if a.stopWork != nil {
		errs = append(errs, a.unannounce())
		a.stopWork()
		a.work.Wait()
	}
	a.drain()
	for _, l := range []net.Listener{a.proxyAt, a.inspectAt} {
		if l != nil {
			l.Close() // a server that ran has closed it already
		}
	}
	if a.doors != nil {
		a.doors.Close()
	}
	if a.engine != nil {
		errs = append(errs, a.engine.Close())
	}
	if a.log != nil {
		if a.stopWork != nil {
			a.log.Info("stopped")
		}
		errs = append(errs, a.log.Close())
	}
	if a.lock != nil {
		errs = append(errs, a.lock.Close())
	}
	return errors.Join(errs...)
}

// unannounce removes runtime.json unless it is another instance's by now.
func (a *App) unannounce() error {
	if r, ok := readRuntime(a.paths); ok && r.Instance == a.Instance {
		return os.Remove(a.paths.runtimeFile())
	}
	return nil
}

// drain stops accepting, waits, and cuts what is left.
func (a *App) drain() {
	if a.proxy == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.drainTime)
	defer cancel()
	a.engine.hub.Close() // event streams never end by themselves
	var both sync.WaitGroup
	for _, s := range []*http.Server{a.proxy, a.inspector} {
		both.Go(func() {
			if s.Shutdown(ctx) != nil {
				a.log.Warn("replies under way were cut", "after", a.drainTime)
				s.Close() // cancels their contexts
			}
		})
	}
	both.Wait()
	a.handlers.Wait()
}
