// Package ops answers what a platform asks a daemon over HTTP: whether it lives, is ready and has
// started, how much there is to do, and its metrics. "troupe run --ops ADDR" serves it; a program
// of yours gives Handler a listener:
//
//	func run(cfg actors.Config) int {
//		cfg.On.Created = append(cfg.On.Created, func(d *actors.Daemon) {
//			server := &http.Server{Addr: "127.0.0.1:9433", Handler: ops.Handler(d), ReadHeaderTimeout: 5 * time.Second}
//			go func() { _ = server.ListenAndServe() }() // before the start: /startupz tells that it is on its way
//		})
//		return actors.Main(cfg)
//	}
//
// Nothing here changes anything, and there is no login: listen where only the platform reaches it.
package ops
