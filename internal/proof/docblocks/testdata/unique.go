package testdata

// Jobs of the page about unique jobs.

type SyncAccount struct {
	Account int `arg:"0"`
}

func (SyncAccount) Class() string { return "SyncAccount" }
