import { expect, expectAccessible, openView, takePicture, test, THEMES, useTheme, VIEWS } from './support/fixtures.ts';

for (const theme of THEMES) {
  for (const view of VIEWS) {
    test(`${view} has no accessibility violation in the ${theme} theme`, async ({ app }) => {
      await useTheme(app, theme);
      await openView(app, view);
      // Data, not the first empty moment: most of what a person reads is in rows and figures.
      await expect(app.getByRole('contentinfo', { name: 'Status' })).toContainText('req/s');
      await takePicture(app, `${view}-${theme}`);
      await expectAccessible(app);
    });
  }
}
