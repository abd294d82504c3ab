/*
 * log.h - leveled log, one line per event, text or JSON.
 *
 * One sink per process, set up once by main() before threads start (the only
 * process-wide state of base; nothing reads it back), and whom it asks about agents. What cannot be seen of peers'
 * text is escaped (visible.h). Library parts return errors; doors and mains log, once.
 * Every .c file that logs defines LOG_SUBSYS before including this header.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <pthread.h>
#include <stdbool.h>

struct err;

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };
enum log_format { LOG_TEXT, LOG_JSON };

/* Correlation: any field may be NULL. Strings are borrowed for the call only. */
struct log_ids {
	const char *request;
	const char *session;
	const char *agent;
	const char *grant;
	const char *peer;
	const char *lease;
	const char *run;
	const char *client_request; /* as the client named it; request: the daemon's own id of a call */
};

/*
 * Completes what is known of a line by its agent, so that nobody who logs has to: asked of lines with an agent and
 * without a lease, on the thread that made it known alone. What it points to has to stay for the call. Borrowed until
 * another, or NULL, takes its place.
 */
struct log_context {
	void (*complete)(void *arg, struct log_ids *ids);
	void *arg;
	pthread_t thread;
};
void log_about(const struct log_context *c);

/*
 * ident: process name in each line ("monitor", "net"); spec: "info" or
 * "info,link=debug,ssh=trace"; fd: where to write (not owned, normally 2).
 * ERR_INVAL names an unknown level. May be called again (SIGHUP).
 */
int log_setup(const char *ident, const char *spec, enum log_format format, int fd, struct err *e);
/* Would log_setup() take this spec? The same messages. */
int log_spec_check(const char *spec, struct err *e);
bool log_enabled(const char *subsys, enum log_level level);
void log_write(const char *subsys, enum log_level level, const struct log_ids *ids, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#define log_error(ids, ...) log_write(LOG_SUBSYS, LOG_ERROR, ids, __VA_ARGS__)
#define log_warn(ids, ...)  log_write(LOG_SUBSYS, LOG_WARN, ids, __VA_ARGS__)
#define log_info(ids, ...)  log_write(LOG_SUBSYS, LOG_INFO, ids, __VA_ARGS__)
#define log_debug(ids, ...)                                                                                            \
	do {                                                                                                           \
		if (log_enabled(LOG_SUBSYS, LOG_DEBUG))                                                                \
			log_write(LOG_SUBSYS, LOG_DEBUG, ids, __VA_ARGS__);                                            \
	} while (0)

#endif
