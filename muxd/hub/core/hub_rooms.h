/*
 * hub_rooms.h - where each room of the hub, and each noun in it, finds what it keeps. For muxd/hub/ alone.
 *
 * Every one of these is a struct of its noun's own, laid out in the file or the header that is named with it and
 * nowhere else: whoever needs something of another room asks that room. The hub holds the pointers (hub_state.h), and
 * setup.c makes and frees what is behind them, from the ground up; they are there from hub_create() to hub_destroy(),
 * but where one says that it goes first.
 */
#ifndef MUXD_HUB_CORE_HUB_ROOMS_H
#define MUXD_HUB_CORE_HUB_ROOMS_H

struct hub;

/* core/ */
struct exec_ids *hub_exec_ids(const struct hub *h); /* exec_ids.c */
struct hub_grants *hub_grants(const struct hub *h); /* grant_news.c */
struct laters *hub_laters(const struct hub *h);     /* later.c */
struct removals *hub_removals(const struct hub *h); /* removals.c */
struct shelf *hub_shelf(const struct hub *h);       /* shelf.c */
/* record/ */
struct audit_repeats *hub_repeats(const struct hub *h);       /* audit.c */
struct readers *hub_readers(const struct hub *h);             /* reader.c */
struct shares *hub_shares(const struct hub *h);               /* share.h */
struct witness_words *hub_witness_words(const struct hub *h); /* witnesses.c */
/* agent/ */
struct agents *hub_agents(const struct hub *h); /* agent.h */
/* session/ */
struct aheads *hub_aheads(const struct hub *h);       /* session_state.h */
struct clients *hub_clients(const struct hub *h);     /* wake.c */
struct contexts *hub_contexts(const struct hub *h);   /* contexts.c */
struct screen_list *hub_screens(const struct hub *h); /* screen.c */
struct shells *hub_shells(const struct hub *h);       /* shells.c */
/* access/ */
struct gate *hub_gate(const struct hub *h);         /* gate.c */
struct policies *hub_policies(const struct hub *h); /* policy.c */
/* broker/ */
struct begin_trees *hub_begin_trees(const struct hub *h); /* begin_tree.c */
struct broker_state *hub_broker(const struct hub *h);     /* broker_state.h */
struct executions *hub_executions(const struct hub *h);   /* executions.c */
struct wishes *hub_wishes(const struct hub *h);           /* round_wishes.h */
/* services/, filespace/, inside/ */
struct services *hub_services(const struct hub *h); /* agent/service_state.h; NULL behind services_destroy() */
struct filespace_places *hub_filespaces(const struct hub *h); /* core/filespace_places.h */
struct insides *hub_insides(const struct hub *h);             /* inside_state.h; NULL behind insides_destroy() */
/* muxd/hub itself */
struct pause *hub_pause(const struct hub *h); /* parts.h */

#endif
