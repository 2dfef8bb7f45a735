/* The table of tasks. */
#include "server/tasks/tasks.h"

#include <string.h>

const sv_task *const sv_tasks[] = { &sv_task_generate,
                                    &sv_task_encode,
                                    &sv_task_decode,
                                    &sv_task_reconstruct,
                                    &sv_task_restore,
                                    &sv_task_upscale,
                                    &sv_task_edit,
                                    &sv_task_interpolate,
                                    &sv_task_sample,
                                    &sv_task_compare,
                                    &sv_task_clip,
                                    &sv_task_profile,
                                    NULL };

const sv_task *sv_task_find(const char *name)
{
    for (int i = 0; name && sv_tasks[i]; i++)
        if (!strcmp(sv_tasks[i]->name, name))
            return sv_tasks[i];
    return NULL;
}
