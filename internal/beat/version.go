package beat

// Version is troupe's own version, shown by Sidekiq's UI and in logs.
const Version = "0.1.0"
